//go:build linux

package hostile

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
)

const (
	defaultWindow = 4
	defaultPace   = 2 * time.Millisecond
	// redialAfter is the pause before a client dials again, when the last attempt
	// failed.
	redialAfter = 50 * time.Millisecond
	// echoLimit is how long a client that finishes waits for echoes. It ends a hang.
	echoLimit = time.Minute
)

// A client sends messages to a server, and compares what comes back. Its fields
// belong to its loop once that runs.
type client struct {
	reactor.BaseHandler
	node
	spec   Spec
	tally  Tally
	lanes  []*lane
	opened *event // every lane has had a connection, or failed to have one
	ending *event // nil until the client finishes: all that was sent is back
}

func (c *client) start(s *Spec) (Note, error) {
	c.spec, c.opened = *s, newEvent()
	c.spec.Conns = max(s.Conns, 1)
	if s.Window == 0 {
		c.spec.Window = defaultWindow
	}
	if s.Pace == 0 {
		c.spec.Pace = defaultPace
	}
	for i := range c.spec.Conns {
		c.lanes = append(c.lanes, newLane(c, i, s.Addr, s.Expendable))
		if s.Also.IsValid() {
			c.lanes = append(c.lanes, newLane(c, c.spec.Conns+i, s.Also, true))
		}
	}
	if err := c.open(s, c); err != nil {
		return Note{}, err
	}
	if err := c.onLoop(c.dialAll); err != nil {
		return Note{}, err
	}
	if s.Expendable {
		return Note{}, nil // the server may be one that does not let it in
	}
	select {
	case <-c.opened.done:
		note := c.report()
		if note.Tally.Failed > 0 {
			return note, errors.New(note.Tally.Cause)
		}
		return note, nil
	case <-time.After(echoLimit):
		return c.report(), fmt.Errorf("the connections were not open after %v", echoLimit)
	}
}

func (c *client) dialAll() {
	for _, l := range c.lanes {
		l.dial()
	}
}

func (c *client) report() (note Note) {
	// It fails when the loop has ended, and then there is nothing to add.
	_ = c.onLoop(func() {
		note.Tally = c.tally
		note.Tally.Took = slices.Clone(c.tally.Took)
	})
	return note
}

func (c *client) await() {}

// finish stops sending, waits for the echoes that are on their way, and closes.
func (c *client) finish() (Note, error) {
	over := newEvent()
	err := c.onLoop(func() {
		c.ending = over
		c.check()
	})
	if err != nil {
		return Note{}, err
	}
	select {
	case <-over.done:
	case <-time.After(echoLimit):
	}
	var note Note
	err = c.onLoop(func() {
		for _, l := range c.lanes {
			l.giveUp()
		}
		note.Tally = c.tally
	})
	return note, errors.Join(err, c.close())
}

// check ends the waiting of finish, and of start.
func (c *client) check() {
	all, idle := true, true
	for _, l := range c.lanes {
		all = all && l.tried
		// A connection that an attack may end may also wait for ever.
		idle = idle && (l.spare || l.sent == l.seen && l.state != laneDialing)
	}
	if all {
		c.opened.happen()
	}
	if idle && c.ending != nil {
		c.ending.happen()
	}
}

// OnTick fills the windows.
func (c *client) OnTick(*reactor.Loop) time.Duration {
	for _, l := range c.lanes {
		l.pump()
	}
	return c.spec.Pace
}

// OnOpen begins to send.
func (c *client) OnOpen(conn *reactor.Conn) { conn.Context().(*lane).open(conn) }

// OnMessage compares an echo.
func (c *client) OnMessage(conn *reactor.Conn, msg reactor.Message) {
	conn.Context().(*lane).echo(msg.Data())
}

// OnClose counts what is lost.
func (c *client) OnClose(conn *reactor.Conn, err error) { conn.Context().(*lane).close(err) }

// OnDialError counts a connection that did not open.
func (c *client) OnDialError(d *reactor.Dial, err error) { d.Context.(*lane).refused(err) }

// from is the address that the client dials from: any, unless the spec says which.
func (c *client) from() (from netip.AddrPort) {
	if c.spec.From.IsValid() {
		from = netip.AddrPortFrom(c.spec.From, 0)
	}
	return from
}
