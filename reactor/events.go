package reactor

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// eventBudget is how many connection events one turn takes: each may make or
// end a queue pair.
const eventBudget = 16

// eventSource is the loop's channel of connection events.
type eventSource Loop

func (s *eventSource) cause() Cause { return CauseConnection }

func (s *eventSource) ready(poller.Readiness) (work int) {
	l := (*Loop)(s)
	for work < eventBudget {
		ev, err := l.channel.Next()
		if err != nil {
			l.recordError(l.unwatch(s))
			l.engine.fail(err)
			return work
		}
		if ev == nil {
			return work
		}
		work++
		l.handleEvent(ev)
	}
	return work
}

// event acknowledges the event before anything else happens, for an ID with
// events outstanding can not be closed.
func (l *Loop) handleEvent(ev *cm.Event) {
	c, ok := ev.ID.Context().(*Conn)
	what, err := ev.Type, ev.Err
	if ok && what == cm.Established && c.dial != nil {
		c.setNegotiated(ev)
	}
	l.recordError(ev.Ack())
	if ok && c.state != StateClosed {
		c.handleEvent(what, err)
	}
}

func (c *Conn) handleEvent(what cm.EventType, err error) {
	switch what {
	case cm.AddrResolved:
		c.failOpenOn(c.addrResolved())
	case cm.RouteResolved:
		c.failOpenOn(c.routeResolved())
	case cm.Established:
		c.enterOpen()
	case cm.Disconnected:
		c.onDisconnected(err)
	case cm.DeviceRemoval:
		c.deviceRemoved()
	case cm.AddrError, cm.RouteError, cm.ConnectError, cm.Rejected, cm.Unreachable:
		// Unreachable may also be news of a neighbour of an open connection,
		// which lives on.
		if c.state < StateOpen {
			c.failOpenOn(err)
		}
	}
}

// advance gives up a connection that can not open.
func (c *Conn) failOpenOn(err error) {
	if err != nil && c.state < StateOpen {
		c.failOpen(err)
	}
}

// onDisconnected is told that the peer has disconnected, or has confirmed that this
// side did. Messages and confirmations that came before are still to be seen to:
// see arrived. How is nil if it did so in order.
func (c *Conn) onDisconnected(how error) {
	c.disconnected = true
	if c.queue != nil {
		c.emptyPollsAtDisconnect = c.queue.emptyPolls
	}
	if c.state == StateConnecting && c.heldMessages.head != nil {
		c.enterOpen() // the peer would not have sent if it were not established
	}
	c.closeReason.peerErr = firstError(how, ErrPeerClosed)
	if c.state == StateDraining {
		c.closeReason.setCause(nil)
		c.state = StateClosing // what is not confirmed now fails
	} else {
		c.beginClose(c.closeReason.peerErr)
	}
	c.scheduleAdvance()
}

// deviceRemoved is told to every connection of the device. The first that hears of
// it tells the others on this loop.
func (c *Conn) deviceRemoved() {
	c.beginClose(ErrDeviceRemoved)
	if c.device != nil {
		c.device.failRemoved(ErrDeviceRemoved)
	}
}

// watchAsync lets one loop of the engine watch the events of a device: they can
// be taken only once.
func (l *Loop) watchAsync(dev verbs.Device) error {
	if !l.engine.claimAsync(dev) {
		return nil
	}
	_, err := l.watch(dev.AsyncFD(), poller.Readable, &asyncSource{loop: l, dev: dev})
	return err
}

// asyncSource is what happens to a device without being asked for.
type asyncSource struct {
	loop *Loop
	dev  verbs.Device
}

func (s *asyncSource) cause() Cause { return CauseDevice }

func (s *asyncSource) ready(poller.Readiness) (work int) {
	var ev verbs.AsyncEvent
	for work < eventBudget {
		ok, err := s.dev.NextAsync(&ev)
		if err != nil {
			// A device whose asynchronous events can not be read is not reliable any more.
			// Other devices are not affected.
			s.loop.recordError(s.loop.unwatch(s))
			s.loop.engine.deviceFailed(s.dev, err)
			return work
		}
		if !ok {
			return work
		}
		work++
		s.loop.engine.deviceEvent(s.dev, ev)
		if ev.Type == verbs.AsyncDeviceFatal {
			// After the last event the descriptor itself may fail.
			s.loop.recordError(s.loop.unwatch(s))
			return work
		}
	}
	return work
}

// deviceEvent ends the connections of this loop that the event is about.
func (l *Loop) deviceEvent(dev verbs.Device, ev verbs.AsyncEvent) {
	err := verbs.Wrap("device", &AsyncError{Device: dev.Name(), Type: ev.Type})
	if ev.Type == verbs.AsyncDeviceFatal {
		l.deviceRemoved(dev, err)
		return
	}
	for c := range l.conns.all() {
		if c.device == nil || c.device.dev != dev {
			continue
		}
		switch ev.Type {
		case verbs.AsyncQPFatal, verbs.AsyncQPRequestError, verbs.AsyncQPAccessError:
			if ev.QP != nil && c.qp == ev.QP {
				c.beginClose(err)
			}
		case verbs.AsyncCQError:
			if c.queue != nil && ev.CQ == c.queue.cq() {
				c.beginClose(err)
			}
		case verbs.AsyncSRQError:
			if c.device.shared != nil && ev.SRQ == c.device.shared.srq {
				c.beginClose(err)
			}
		}
	}
}

func (l *Loop) deviceRemoved(dev verbs.Device, err error) {
	for _, n := range l.devices {
		if n.dev == dev {
			n.failRemoved(err)
		}
	}
}

// deviceFailed ends the connections and listeners of this loop on a device that the
// engine can not use any more.
func (l *Loop) deviceFailed(dev verbs.Device, err error) {
	for _, n := range l.devices {
		if n.dev == dev {
			n.fail(err)
		}
	}
	if l.index > 0 {
		return
	}
	for _, ln := range l.engine.acceptor.removeListenersOf(dev) {
		l.closeListener(ln, err)
	}
}

// An AsyncError ends connections because of an event of their device.
type AsyncError struct {
	Device string
	Type   verbs.AsyncEventType
}

func (e *AsyncError) Error() string { return e.Device + ": " + e.Type.String() }
