package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// DeviceEvent lets the loop of c believe that something happened to its device.
func DeviceEvent(c *Conn, what verbs.AsyncEventType) {
	c.loop.deviceEvent(c.nic.dev, verbs.AsyncEvent{Type: what, QP: c.qp, CQ: c.nic.queue.CQ()})
}

// FailCQ lets the loop of c believe that its completion queue is broken.
func FailCQ(c *Conn, err error) { c.nic.fail(err) }
