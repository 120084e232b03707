package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

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
// advance() is called.
func (c *Conn) awaitsDeviceEvents() bool {
	if c.deviceEvents == deviceEventsNotFetched && c.mayHaveDeviceEvent() {
		c.fetchDeviceEvents()
	}
	return c.deviceEvents == deviceEventsAwaited
}

// mayHaveDeviceEvent reports whether the true reason for the end of the connection may be
// an event of the device that was not fetched yet.
func (c *Conn) mayHaveDeviceEvent() bool {
	return c.closeReason.isEffect() && c.qp != nil && c.device.failure == nil && !c.device.removed &&
		c.qp.State() == verbs.StateError
}

// fetchDeviceEvents fetches the events if this loop watches the device. If another loop
// watches the device, fetchDeviceEvents asks that loop to fetch the events. The other
// loop posts the events to this loop, and then posts a function that ends the wait.
func (c *Conn) fetchDeviceEvents() {
	c.deviceEvents = deviceEventsFetched
	s := c.loop.engine.asyncSourceOf(c.device.dev)
	if s == nil {
		return
	}
	if s.loop == c.loop {
		s.fetchAll()
		return
	}
	c.deviceEvents = deviceEventsAwaited
	if c.state == stateOpenFailed {
		c.loop.setTimer(&c.stateTimer, disconnectTimeout)
	}
	answer := func() {
		c.deviceEvents = deviceEventsFetched
		c.scheduleAdvance()
	}
	ask := func() {
		s.fetchAll()
		_ = c.loop.post("device events fetched", answer, true) // Loop.post() fails only if the loop has ended
	}
	if s.loop.post("fetch device events", ask, true) != nil { // post fails only if the other loop has ended.
		c.deviceEvents = deviceEventsFetched
	}
}
