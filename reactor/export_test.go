package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// DeviceEvent lets the loop of c believe that something happened to its device.
func DeviceEvent(c *Conn, what verbs.AsyncEventType) {
	c.loop.deviceEvent(c.nic.dev, verbs.AsyncEvent{Type: what, QP: c.qp, CQ: c.nic.queue.CQ()})
}

// FailCQ lets the loop of c believe that its completion queue is broken.
func FailCQ(c *Conn, err error) { c.nic.fail(err) }

// FailRequest lets c believe that a request ended with status s.
func FailRequest(c *Conn, s verbs.Status) { _ = c.fail(&verbs.WC{Status: s}) }

// Oversleep lets l believe that the safety timeout ended its last sleep, and that
// no event came.
func Oversleep(l *Loop) { l.overslept = true }
