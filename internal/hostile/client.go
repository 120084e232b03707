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
	// redialAfter is the pause before a client dials again after a failure. It is
	// arbitrary.
	redialAfter = 50 * time.Millisecond
	// echoLimit bounds how long a finishing client waits for echoes, so that a test does
	// not hang.
	echoLimit = time.Minute
)

// A client sends messages to a server, and compares the echoes. Only its loop uses
// the fields once the loop runs.
type client struct {
	reactor.BaseHandler
	node
	spec  Spec
	tally Tally
	lanes []*lane
	// happens when every lane has opened, or failed to open, a first connection
	opened *event
	ending *event // not nil once the client finishes; happens when all echoes have arrived
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
		// The server may refuse the client, so start does not wait for connections.
		return Note{}, nil
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
	// It fails when the loop has ended, and the tally then has no more to report.
	_ = c.onLoop(func() {
		note.Tally = c.tally
		note.Tally.Took = slices.Clone(c.tally.Took)
	})
	return note
}

func (c *client) await() {}

// finish stops sending, waits for the outstanding echoes, and closes.
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

// check ends the wait of start, and of finish, when its condition holds.
func (c *client) check() {
	all, idle := true, true
	for _, l := range c.lanes {
		all = all && l.tried
		// An attack may end or block an expendable connection, so finish does not wait for
		// it.
		idle = idle && (l.spare || l.sent == l.seen && l.state != laneDialing)
	}
	if all {
		c.opened.happen()
	}
	if idle && c.ending != nil {
		c.ending.happen()
	}
}

// OnTick sends as many messages as the windows allow.
func (c *client) OnTick(*reactor.Loop) time.Duration {
	for _, l := range c.lanes {
		l.pump()
	}
	return c.spec.Pace
}

// OnOpen starts sending on the connection.
func (c *client) OnOpen(conn *reactor.Conn) { conn.Context().(*lane).open(conn) }

// OnMessage compares an echo.
func (c *client) OnMessage(conn *reactor.Conn, msg reactor.Message) {
	conn.Context().(*lane).echo(msg.Data())
}

// OnClose counts messages without an echo as lost.
func (c *client) OnClose(conn *reactor.Conn, err error) { conn.Context().(*lane).close(err) }

// OnDialError counts the connection as failed.
func (c *client) OnDialError(d *reactor.Dial, err error) { d.Context.(*lane).refused(err) }

// from returns the address that the client dials from: the one in the spec, or none.
func (c *client) from() (from netip.AddrPort) {
	if c.spec.From.IsValid() {
		from = netip.AddrPortFrom(c.spec.From, 0)
	}
	return from
}
