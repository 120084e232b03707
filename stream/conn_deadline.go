package stream

import (
	"net"
	"time"
)

// recheck makes a waiting goroutine check its deadline.
func (c *Conn) recheck(w *waiter) {
	c.loop.Lock()
	defer c.loop.Unlock()
	c.loop.Recheck(w.Waiter)
}

// SetDeadline is SetReadDeadline and SetWriteDeadline with the same time.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline sets the time at which present and later calls of Read fail with an
// error that matches os.ErrDeadlineExceeded. The zero time means no deadline. After Close
// the error matches net.ErrClosed.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(&c.readDeadline, &c.readable, t)
}

// SetWriteDeadline is SetReadDeadline for Write.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(&c.writeDeadline, &c.writable, t)
}

func (c *Conn) setDeadline(d *deadline, w *waiter, t time.Time) error {
	c.loop.Lock()
	defer c.loop.Unlock()
	if c.state.closed() {
		return c.opError("set", net.ErrClosed)
	}
	d.set(t)
	c.loop.Recheck(w.Waiter)
	return nil
}
