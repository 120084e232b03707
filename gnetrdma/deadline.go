package gnetrdma

import (
	"os"
	"sync/atomic"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// A deadline calls a function of a connection when a time has passed. Any goroutine may
// set it.
type deadline struct {
	c       *conn
	expired func()
	at      atomic.Int64 // the deadline in nanoseconds since engine.epoch; 0 means none
	// armed is the time at which the loop next checks the deadline, in nanoseconds since
	// engine.epoch; 0 means that no check is planned. A deadline that is later than the
	// planned check needs no call to the loop.
	armed atomic.Int64
	timer *reactor.Timer // only the goroutine of the loop uses it
}

func (d *deadline) init(c *conn, expired func()) { d.c, d.expired = c, expired }

// set sets the deadline. The zero time means none. A time that is more than 292 years
// away, the largest time.Duration, counts as 292 years away.
func (d *deadline) set(t time.Time) error {
	if t.IsZero() {
		d.at.Store(0)
		return nil
	}
	at := max(int64(t.Sub(d.c.engine.epoch)), 1) // Sub limits its result to a time.Duration.
	d.at.Store(at)
	if armed := d.armed.Load(); armed != 0 && armed <= at {
		return nil
	}
	return d.c.loop.enqueue(task{run: d.check})
}

// check runs on the loop. It calls expired if the deadline has passed, and otherwise
// makes sure that check runs again then.
func (d *deadline) check() {
	d.stop()
	at := d.at.Load()
	if at == 0 || d.c.state != connOpen {
		return
	}
	left := time.Duration(at) - time.Since(d.c.engine.epoch)
	if left <= 0 {
		d.expired()
		return
	}
	d.armed.Store(at)
	d.timer = d.c.loop.reactor.After(left, d.check)
}

// passed reports whether there is a deadline and it has passed.
func (d *deadline) passed() bool {
	at := d.at.Load()
	return at != 0 && int64(time.Since(d.c.engine.epoch)) >= at
}

// stop stops the timer.
func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.armed.Store(0)
}

// SetDeadline is SetReadDeadline and SetWriteDeadline with the same time.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err // The engine has ended, and SetWriteDeadline would return the same error.
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline closes the connection at t, and OnClose gets os.ErrDeadlineExceeded. A
// handler that expects a message from time to time sets a later deadline in OnTraffic.
// The zero time means no deadline. Any goroutine may call it.
func (c *conn) SetReadDeadline(t time.Time) error { return c.readDeadline.set(t) }

// SetWriteDeadline closes the connection at t, or at the next write after t, if output
// has to wait for the peer then. OnClose gets os.ErrDeadlineExceeded. The zero time means
// no deadline. Any goroutine may call it.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.writeDeadline.set(t) }

// readExpired is called when the read deadline has passed.
func (c *conn) readExpired() {
	_ = c.close(os.ErrDeadlineExceeded) // close has done what OnClose asked for.
}

// writeExpired is called when the write deadline has passed.
func (c *conn) writeExpired() {
	if c.output.len() > 0 {
		_ = c.abort(os.ErrDeadlineExceeded) // abort has done what OnClose asked for.
	}
}
