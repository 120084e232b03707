package reactor

import (
	"slices"
	"sync"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An asyncSource fetches the asynchronous events of a device.
type asyncSource struct {
	loop  *Loop
	dev   verbs.Device
	ended bool // true if no more events can be fetched
	// event is the event that ready() handles. A local variable would be allocated on
	// the heap.
	event verbs.AsyncEvent
}

// watchAsync makes the loop watch the asynchronous events of a device. It does nothing if
// another loop of the engine watches them.
func (l *Loop) watchAsync(dev verbs.Device) error {
	s := &asyncSource{loop: l, dev: dev}
	if !l.engine.claimAsync(s) {
		return nil
	}
	_, err := l.watch(dev.AsyncFD(), poller.Readable, s)
	if err != nil {
		l.engine.unclaimAsync(s)
	}
	return err
}

func (s *asyncSource) wakeCause() wakeCause { return wakeByDevice }

func (s *asyncSource) ready(poller.Readiness) (work int) {
	for work < eventBudget {
		ok, err := s.dev.NextAsync(&s.event)
		if err != nil {
			// A device whose asynchronous events can not be read is not reliable any
			// more.
			s.end()
			s.loop.engine.onLoops(s.loop, "device failure", func(l *Loop) { l.deviceFailed(s.dev, err) })
			return work
		}
		if !ok {
			return work
		}
		work++
		if s.event.Type == verbs.AsyncQPLastWQE && s.dev.Caps().ProgressManual {
			continue // No connection waits for this event: see loopDevice.awaitsLastWQE.
		}
		s.report(s.event)
		if s.event.Type == verbs.AsyncDeviceFatal {
			// AsyncDeviceFatal is the last event. The loop stops watching the
			// descriptor, because reading from it may fail now.
			s.end()
			return work
		}
	}
	return work
}

// report passes an event of the device to the loop of the connection that it is about. An
// event about the device, a CQ or an SRQ goes to all loops: a device raises at most one
// of each kind for an object, and then the object has failed. Other events have no
// effect.
func (s *asyncSource) report(ev verbs.AsyncEvent) {
	e := s.loop.engine
	switch {
	case ev.QP != nil:
		if c := e.qpOwners.of(ev.QP); c != nil {
			e.onLoop(s.loop, c.loop, "device event", func(*Loop) { c.queuePairEvent(s.dev, ev.Type) })
		}
	case ev.Type == verbs.AsyncDeviceFatal, ev.Type == verbs.AsyncCQError, ev.Type == verbs.AsyncSRQError:
		e.onLoops(s.loop, "device event", func(l *Loop) { l.deviceEvent(s.dev, ev) })
	}
}

// end stops watching the device.
func (s *asyncSource) end() {
	s.ended = true
	s.loop.recordError(s.loop.unwatch(s))
}

// fetchAll fetches all events that the device has. It runs on the goroutine of s.loop.
func (s *asyncSource) fetchAll() {
	for !s.ended && s.ready(0) == eventBudget {
	}
}

// deviceEvent ends the connections of this loop that an asynchronous event about dev, a
// CQ or an SRQ affects.
func (l *Loop) deviceEvent(dev verbs.Device, ev verbs.AsyncEvent) {
	err := asyncError(dev, ev.Type)
	for _, d := range l.devices {
		if d.dev != dev {
			continue
		}
		switch ev.Type {
		case verbs.AsyncDeviceFatal:
			d.failRemoved(err)
		case verbs.AsyncCQError:
			d.closeConnsOf(err, func(c *Conn) bool { return c.queue != nil && c.queue.cq() == ev.CQ })
		case verbs.AsyncSRQError:
			if d.sharedRecv != nil && ev.SRQ == d.sharedRecv.srq {
				d.closeConnsOf(err, func(*Conn) bool { return true })
			}
		}
	}
}

// deviceFailed ends the connections of this loop on dev, because the events of dev can
// not be read. The loop with index 0 also closes the listeners on dev.
func (l *Loop) deviceFailed(dev verbs.Device, err error) {
	for _, d := range l.devices {
		if d.dev == dev {
			d.fail(err)
		}
	}
	if l.index > 0 {
		return
	}
	for _, ln := range l.engine.acceptor.removeListenersOf(dev) {
		l.closeListener(ln, err)
	}
}

// queuePairEvent handles an asynchronous event of the connection's queue pair.
func (c *Conn) queuePairEvent(dev verbs.Device, kind verbs.AsyncEventType) {
	switch {
	case c.state == stateClosed:
	case kind == verbs.AsyncQPFatal, kind == verbs.AsyncQPRequestError, kind == verbs.AsyncQPAccessError:
		c.closing.reason.deviceEvent(asyncError(dev, kind))
		c.on(eventReason)
	case kind == verbs.AsyncQPLastWQE:
		c.onLastWQE()
	}
}

// If the peer sends a forbidden request, the queue pair fails, and the device reports an
// event with the cause. The completions and the disconnect that follow do not tell the
// cause. So before a connection ends with the error of such a completion or disconnect,
// it waits for the events of its device.

// A deviceEventsState says whether a connection that ends has waited for the events of
// its device.
type deviceEventsState uint8

const (
	deviceEventsNotFetched deviceEventsState = iota // the connection has not requested the events
	deviceEventsAwaited                             // the loop that watches the device will fetch them
	deviceEventsFetched                             // the events were fetched and handled
)

// awaitsDeviceEvents reports whether the connection must wait for the events of its
// device. The first call fetches or requests them. When requested events were handled,
// step is called.
func (c *Conn) awaitsDeviceEvents() bool {
	if c.closing.deviceEvents == deviceEventsNotFetched && c.mayHaveDeviceEvent() {
		c.fetchDeviceEvents()
	}
	return c.closing.deviceEvents == deviceEventsAwaited
}

// mayHaveDeviceEvent reports whether the true reason for the end of the connection may be
// an event of the device that was not fetched yet.
func (c *Conn) mayHaveDeviceEvent() bool {
	return c.closing.reason.isEffect() && c.qp != nil && c.device.failure == nil && !c.device.removed &&
		c.qp.State() == verbs.StateError
}

// fetchDeviceEvents fetches the events if this loop watches the device. If another loop
// watches the device, fetchDeviceEvents asks that loop to fetch the events. The other
// loop posts the events to this loop, and then posts a function that ends the wait.
func (c *Conn) fetchDeviceEvents() {
	c.closing.deviceEvents = deviceEventsFetched
	s := c.loop.engine.asyncSourceOf(c.device.dev)
	if s == nil {
		return
	}
	if s.loop == c.loop {
		s.fetchAll()
		return
	}
	c.closing.deviceEvents = deviceEventsAwaited
	if c.state == stateOpenFailed {
		c.loop.setTimer(&c.stateTimer, disconnectTimeout)
	}
	answer := func() {
		c.closing.deviceEvents = deviceEventsFetched
		c.scheduleStep()
	}
	ask := func() {
		s.fetchAll()
		_ = c.loop.post("device events fetched", answer, true) // Loop.post() fails only if the loop has ended
	}
	if s.loop.post("fetch device events", ask, true) != nil { // post fails only if the other loop has ended.
		c.closing.deviceEvents = deviceEventsFetched
	}
}

// A qpOwners finds the connection of a queue pair, for the events of all devices of an
// engine. A peer can cause events, so an event must not cost time for each connection.
// Any goroutine may call the methods. The zero value is ready to use.
type qpOwners struct {
	mu    sync.Mutex
	conns map[verbs.QP]*Conn
}

// add records that qp belongs to c.
func (o *qpOwners) add(qp verbs.QP, c *Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conns == nil {
		o.conns = make(map[verbs.QP]*Conn)
	}
	o.conns[qp] = c
}

// remove removes a queue pair that was closed. A map never becomes smaller, so remove
// drops the map with its last element.
func (o *qpOwners) remove(qp verbs.QP) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if delete(o.conns, qp); len(o.conns) == 0 {
		o.conns = nil
	}
}

// of returns the connection of qp, or nil. The caller may use the connection only on the
// goroutine of Conn.loop.
func (o *qpOwners) of(qp verbs.QP) *Conn {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conns[qp]
}

// asyncError returns the error of connections that an asynchronous event has ended.
func asyncError(dev verbs.Device, kind verbs.AsyncEventType) error {
	return operr.Wrap("device", &verbs.AsyncError{Device: dev.Name(), Type: kind})
}

// claimAsync records that the loop of s watches a device's asynchronous events. It
// reports false if another loop does.
func (e *Engine) claimAsync(s *asyncSource) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.ContainsFunc(e.devices, func(o *asyncSource) bool { return o.dev == s.dev }) {
		return false
	}
	e.devices = append(e.devices, s)
	return true
}

// unclaimAsync undoes a call of claimAsync that has reported true.
func (e *Engine) unclaimAsync(s *asyncSource) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.devices = slices.DeleteFunc(e.devices, func(o *asyncSource) bool { return o == s })
}

// asyncSourceOf returns the asyncSource of a device, or nil if no loop watches the
// device.
func (e *Engine) asyncSourceOf(dev verbs.Device) *asyncSource {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.devices {
		if s.dev == dev {
			return s
		}
	}
	return nil
}
