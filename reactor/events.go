package reactor

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// eventBudget is the largest number of events that a turn handles for one event channel
// or device. A connection event may take long. The number is arbitrary.
const eventBudget = 16

// An eventSource is a Loop with the methods of the interface source. It handles the
// events of the loop's cm.EventChannel.
type eventSource Loop

func (s *eventSource) wakeCause() WakeCause { return WakeByConnection }

func (s *eventSource) ready(poller.Readiness) (work int) {
	l := (*Loop)(s)
	for work < eventBudget {
		ev, ok, err := l.channel.Next()
		if err != nil {
			l.recordError(l.unwatch(s))
			l.engine.fail(err)
			return work
		}
		if !ok {
			return work
		}
		work++
		l.handleEvent(&ev)
	}
	return work
}

// handleEvent handles a connection event. It acknowledges the event first, because an ID
// with an unacknowledged event can not be closed.
func (l *Loop) handleEvent(ev *cm.Event) {
	c, ok := ev.ID.Context().(*Conn)
	typ, err := ev.Type, ev.Err
	if ok && typ == cm.Established && c.dial != nil {
		c.setNegotiated(ev)
	}
	l.recordError(ev.Ack())
	if ok && c.state != stateClosed {
		c.handleEvent(typ, err)
	}
}

// handleEvent handles an event of the connection's ID. The parameter err is the error of
// the event, or nil.
func (c *Conn) handleEvent(typ cm.EventType, err error) {
	switch typ {
	case cm.AddrResolved:
		if c.state == stateDialing {
			c.failOpenOn(c.addrResolved())
		}
	case cm.RouteResolved:
		if c.state == stateDialing {
			c.failOpenOn(c.routeResolved())
		}
	case cm.Established:
		c.enterOpen()
	case cm.Disconnected:
		c.onDisconnected(err)
	case cm.DeviceRemoval:
		c.deviceRemoved()
	case cm.AddrError, cm.RouteError, cm.ConnectError, cm.Rejected, cm.Unreachable:
		// An open connection gets cm.Unreachable when its peer's link-layer address
		// changes. failOpenOn ignores open connections.
		c.failOpenOn(err)
	}
}

// failOpenOn ends the connection with err if the connection is still opening and err is
// not nil.
func (c *Conn) failOpenOn(err error) {
	if err != nil && c.state < stateOpenFailed {
		c.failOpen(err)
	}
}

// onDisconnected handles cm.Disconnected. The error err is verbs.ErrPeerGone,
// cm.ErrStale or nil. The CQ may still have earlier completions: see
// stateAwaitingEmptyCQ.
func (c *Conn) onDisconnected(err error) {
	if c.queue != nil {
		c.emptyPollsAtDisconnect = c.queue.emptyPolls
	}
	if c.state == stateConnecting && c.heldMessages.head != nil {
		// The peer has sent messages, so the connection was established. OnOpen is
		// called, and then OnMessage.
		c.enterOpen()
	}
	c.closeReason.peerErr = firstError(err, ErrPeerClosed)
	cause := c.closeReason.peerErr
	if c.state == stateDraining {
		// After Close, a disconnect of the peer is not an error. But it is an error if sends
		// are not confirmed.
		cause = nil
		c.closeReason.unconfirmed = c.flow.outstanding() > 0 || c.longOutstanding() > 0
	}
	c.beginClose(cause)
	c.scheduleAdvance()
}

// deviceRemoved handles cm.DeviceRemoval, which each connection of the device gets. The
// first such event ends all connections of the device on this loop.
func (c *Conn) deviceRemoved() {
	c.beginClose(ErrDeviceRemoved)
	if c.device != nil {
		c.device.failRemoved(ErrDeviceRemoved)
	}
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

// An asyncSource fetches the asynchronous events of a device.
type asyncSource struct {
	loop  *Loop
	dev   verbs.Device
	ended bool // true if no more events can be fetched
	// event is the event that ready() handles. A local variable would be allocated on
	// the heap.
	event verbs.AsyncEvent
}

func (s *asyncSource) wakeCause() WakeCause { return WakeByDevice }

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

// queuePairEvent handles an asynchronous event of the connection's queue pair.
func (c *Conn) queuePairEvent(dev verbs.Device, kind verbs.AsyncEventType) {
	switch {
	case c.state == stateClosed:
	case kind == verbs.AsyncQPFatal, kind == verbs.AsyncQPRequestError, kind == verbs.AsyncQPAccessError:
		c.closeReason.deviceEvent(asyncError(dev, kind))
		c.enterClosing()
	case kind == verbs.AsyncQPLastWQE:
		c.onLastWQE()
	}
}

// asyncError returns the error of connections that an asynchronous event has ended.
func asyncError(dev verbs.Device, kind verbs.AsyncEventType) error {
	return operr.Wrap("device", &AsyncError{Device: dev.Name(), Type: kind})
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

// An AsyncError reports that an asynchronous event of a device has ended a connection.
// The callback gets the error inside a *verbs.OpError. The error matches
// verbs.ErrProtocol if the peer has sent an invalid or forbidden request. Source:
// ibv_get_async_event(3).
type AsyncError struct {
	Device string               // name of the device
	Type   verbs.AsyncEventType // type of the event
}

// Is reports whether target is verbs.ErrProtocol and the peer has caused the event.
func (e *AsyncError) Is(target error) bool {
	return target == verbs.ErrProtocol &&
		(e.Type == verbs.AsyncQPRequestError || e.Type == verbs.AsyncQPAccessError)
}

// Error returns the name of the device and the type of the event.
func (e *AsyncError) Error() string { return e.Device + ": " + e.Type.String() }
