package reactor

import (
	"time"
)

// lastWQETimeout is how long a connection waits for verbs.AsyncQPLastWQE. Arbitrary.
const lastWQETimeout = time.Second

// A queue pair takes a buffer from the shared receive queue when a message begins to
// arrive. A device that moves data by itself may still have this buffer after the queue
// pair has entered the error state. If the queue pair were closed then, the buffer would
// never complete, and the shared receive queue would lack it. So the connection first
// waits for verbs.AsyncQPLastWQE, and then for an empty CQ. Source:
// ibv_get_async_event(3).

// A lastWQE says whether a queue pair has taken its last buffer from the shared receive
// queue.
type lastWQE struct {
	reached    bool   // true after verbs.AsyncQPLastWQE was received
	emptyPolls uint64 // value of completionQueue.emptyPolls when the event was received
}

// onLastWQE handles verbs.AsyncQPLastWQE for the queue pair of the connection.
func (c *Conn) onLastWQE() {
	if c.queue == nil {
		return
	}
	c.device.lastWQEReports = lastWQEReported
	c.lastWQE = lastWQE{reached: true, emptyPolls: c.queue.emptyPolls}
	c.scheduleAdvance()
}

// onLastWQETimeout closes a connection that has waited too long for
// verbs.AsyncQPLastWQE. If the device has never reported this event, the next
// connections do not wait.
func (c *Conn) onLastWQETimeout() {
	if d := c.device; !c.lastWQE.reached && d.lastWQEReports == lastWQEUnknown {
		d.lastWQEReports = lastWQENever
	}
	c.destroy()
}

// A lastWQEReports says whether a device reports verbs.AsyncQPLastWQE. The Soft-RoCE of
// Linux 6.1 is one of the devices that do not.
type lastWQEReports uint8

const (
	lastWQEUnknown  lastWQEReports = iota // no queue pair has ended on the device
	lastWQEReported                       // the device has reported verbs.AsyncQPLastWQE
	lastWQENever                          // lastWQETimeout has passed without such an event
)

// mayHoldSharedBuffer reports whether the queue pair may still have a buffer of the
// shared receive queue. The queue pair is in the error state. After
// verbs.AsyncQPLastWQE the result is true until a poll has left the CQ empty. To prepare
// this poll, mayHoldSharedBuffer calls loopDevice.consume and schedules a call of
// advance().
func (c *Conn) mayHoldSharedBuffer() bool {
	d := c.device
	if !c.sharesRecv() || !d.awaitsLastWQE() || d.failure != nil {
		return false
	}
	if !c.lastWQE.reached {
		return true
	}
	if c.queue.emptyPolls > c.lastWQE.emptyPolls {
		return false
	}
	d.consume()
	c.scheduleAdvance()
	return true
}

// awaitsLastWQE reports whether connections of the device must wait for
// verbs.AsyncQPLastWQE. With manual progress this is not necessary: the device completes
// all buffers of a queue pair when the queue pair enters the error state.
func (d *loopDevice) awaitsLastWQE() bool {
	return d.sharedRecv != nil && d.lastWQEReports != lastWQENever && !d.dev.Caps().ProgressManual
}
