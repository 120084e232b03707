//go:build linux

package reactortest

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// stepLimit is how long Dial, On and the methods of a Conn let pass before the test fails:
// longer than a connection to a dead peer takes to end.
const stepLimit = 2 * time.Minute

// A Conn is a connection that the test has dialed with World.Dial.
type Conn struct {
	*reactor.Conn
	// Received has the messages that have arrived and that Exchange has not returned.
	Received [][]byte

	w      *World
	closed bool
	err    error // argument of OnClose
}

// Dial connects an engine to an address, lets time pass until the connection is open, and
// returns it. The test fails if it does not open. The connection has a handler of its own, so
// the parameter o must have none; nil means the defaults.
func (w *World) Dial(e *reactor.Engine, to netip.AddrPort, o *reactor.DialOptions) *Conn {
	w.t.Helper()
	h := &dialed{conn: &Conn{w: w}}
	options := reactor.DialOptions{}
	if o != nil {
		options = *o
	}
	options.Handler = h
	if err := e.Dial(to, &options); err != nil {
		w.t.Fatalf("dial %v: %v", to, err)
	}
	w.Until(stepLimit, func() bool { return h.conn.Conn != nil || h.failed != nil })
	if h.failed != nil {
		w.t.Fatalf("dial %v: %v", to, h.failed)
	}
	return h.conn
}

// dialed is the handler of a Conn.
type dialed struct {
	reactor.BaseHandler
	conn   *Conn
	failed error
}

func (d *dialed) OnOpen(c *reactor.Conn)             { d.conn.Conn = c }
func (d *dialed) OnClose(_ *reactor.Conn, err error) { d.conn.closed, d.conn.err = true, err }
func (d *dialed) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	d.failed = err
}

func (d *dialed) OnMessage(_ *reactor.Conn, m reactor.Message) {
	d.conn.Received = append(d.conn.Received, slices.Clone(m.Data()))
}

// Send sends a message, and lets time pass while the send queue is full. The test fails if the
// message is not accepted.
func (c *Conn) Send(message []byte) {
	c.w.t.Helper()
	err := reactor.ErrWouldBlock
	for end := c.w.Now() + stepLimit; errors.Is(err, reactor.ErrWouldBlock) && c.w.Now() < end; {
		c.w.On(c.Loop(), func() { err = c.Conn.Send(message, nil) })
	}
	if err != nil {
		c.w.t.Fatalf("send: %v", err)
	}
}

// On calls fn on a loop, and lets time pass until fn has returned. A test has to use it for
// methods of a Conn, and for others that belong to the loop.
func (w *World) On(l *reactor.Loop, fn func()) {
	w.t.Helper()
	done := false
	if err := l.Post(func() { fn(); done = true }); err != nil {
		w.t.Fatalf("call a function on a loop: %v", err)
	}
	w.Until(stepLimit, func() bool { return done })
}

// Exchange sends a message, lets time pass until a message arrives, and returns that one. The
// test fails if the connection ends before.
func (c *Conn) Exchange(message []byte) (answer []byte) {
	c.w.t.Helper()
	c.Send(message)
	c.w.Until(stepLimit, func() bool { return len(c.Received) > 0 || c.closed })
	if len(c.Received) == 0 {
		c.w.t.Fatalf("no answer: the connection has ended: %v", c.err)
	}
	answer, c.Received = c.Received[0], c.Received[1:]
	return answer
}

// WantClose lets time pass until the connection has ended, and returns the argument of
// OnClose. The test fails if that does not match the error reason, in the sense of errors.Is.
func (c *Conn) WantClose(reason error) error {
	c.w.t.Helper()
	c.w.Until(stepLimit, func() bool { return c.closed })
	if !errors.Is(c.err, reason) {
		c.w.t.Fatalf("the connection has ended with %v, not with %v", c.err, reason)
	}
	return c.err
}

// Closed reports whether the connection has ended, and returns the argument of OnClose.
func (c *Conn) Closed() (bool, error) { return c.closed, c.err }
