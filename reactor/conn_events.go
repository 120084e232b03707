package reactor

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/poller"
)

// eventBudget is the largest number of events that a turn handles for one event channel
// or device. A connection event may take long. The number is arbitrary.
const eventBudget = 16

// An eventSource is a Loop with the methods of the interface source. It handles the
// events of the loop's cm.EventChannel.
type eventSource Loop

func (s *eventSource) wakeCause() wakeCause { return wakeByConnection }

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
	c, ok := ev.ID.UserData().(*Conn)
	typ, err, data := ev.Type, ev.Err, ev.Param.PrivateData
	if ok && typ == cm.Established && c.opening != nil && c.opening.dial != nil {
		c.setNegotiated(ev)
	}
	l.recordError(ev.Ack())
	if ok && c.state != stateClosed {
		c.handleEvent(typ, err, data)
	}
}

// handleEvent handles an event of the connection's ID. The parameter err is the error of
// the event, or nil, and data its private data.
func (c *Conn) handleEvent(typ cm.EventType, err error, data []byte) {
	switch typ {
	case cm.AddrResolved:
		if c.state == stateDialing {
			c.refuseOn(c.addrResolved())
		}
	case cm.RouteResolved:
		if c.state == stateDialing {
			c.refuseOn(c.routeResolved())
		}
	case cm.Established:
		c.on(eventEstablished)
	case cm.Disconnected:
		c.onDisconnected(err, data)
	case cm.DeviceRemoval:
		c.deviceRemoved()
	case cm.AddrError, cm.RouteError, cm.ConnectError, cm.Rejected, cm.Unreachable:
		// An open connection gets cm.Unreachable when its peer's link-layer address
		// changes. refuseOn ignores open connections.
		c.refuseOn(err)
	}
}

// refuseOn ends the connection with err if the connection is still opening and err is not
// nil.
func (c *Conn) refuseOn(err error) {
	if err != nil && c.state < stateOpenFailed {
		c.refuse(err)
	}
}

// onDisconnected handles cm.Disconnected. The error err is verbs.ErrPeerGone,
// cm.ErrStale or nil, and data is the private data of the peer. The CQ may still have earlier
// completions: see stateAwaitingEmptyCQ.
func (c *Conn) onDisconnected(err error, data []byte) {
	if c.queue != nil {
		c.closing.emptyPollsAtDisconnect = c.queue.emptyPolls
	}
	if c.state == stateConnecting && c.opening.held.head != nil {
		// The peer has sent messages, so the connection was established. OnOpen is
		// called, and then OnMessage.
		c.on(eventEstablished)
	}
	c.closing.reason.peerErr = firstError(err, ErrPeerClosed)
	if err == nil && c.state < stateFlushing { // Otherwise the peer answers.
		c.closing.reason.peerErr = &CloseError{Cause: ErrPeerClosed, Peer: decodeReason(data)}
	}
	cause := c.closing.reason.peerErr
	if c.state == stateDraining {
		// After Close, a disconnect of the peer is not an error. But it is an error if sends
		// are not confirmed.
		cause = nil
		c.closing.reason.unconfirmed = c.sends.flow.outstanding() > 0 || c.longOutstanding() > 0
	}
	c.endWith(cause)
	c.scheduleStep()
}

// deviceRemoved handles cm.DeviceRemoval, which each connection of the device gets. The
// first such event ends all connections of the device on this loop.
func (c *Conn) deviceRemoved() {
	c.endWith(ErrDeviceRemoved)
	if c.device != nil {
		c.device.failRemoved(ErrDeviceRemoved)
	}
}
