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
	defaultMaxInFlight = 4
	defaultPause       = 2 * time.Millisecond
	// After a failure, a client waits this long before it dials again. Arbitrary.
	redialAfter = 50 * time.Millisecond
	// A finishing client waits for its echoes at most this long. It then reports the
	// missing ones. Arbitrary.
	echoLimit = time.Minute
)

// A client sends messages to a server and checks the echoes. After its start, only its
// loop uses the fields.
type client struct {
	reactor.BaseHandler
	node
	spec    Spec
	tally   Tally
	dialers []*dialer
	ticker  *reactor.Timer // calls tick
	// The first dial of every dialer has succeeded or failed.
	opened *event
	// Event that happens when all echoes have arrived, after the order to finish. Nil
	// before this order.
	finishing *event
}

func (c *client) start(s *Spec) (Note, error) {
	c.spec, c.opened = *s, newEvent()
	c.spec.Conns = max(s.Conns, 1)
	if s.MaxInFlight == 0 {
		c.spec.MaxInFlight = defaultMaxInFlight
	}
	if s.Pause == 0 {
		c.spec.Pause = defaultPause
	}
	for i := range c.spec.Conns {
		c.dialers = append(c.dialers, newDialer(c, i, s.Addr, s.Expendable))
		if s.SecondAddr.IsValid() {
			c.dialers = append(c.dialers, newDialer(c, c.spec.Conns+i, s.SecondAddr, true))
		}
	}
	if err := c.open(s, c); err != nil {
		return Note{}, err
	}
	if err := c.onLoop(func() {
		c.ticker = c.engine.Loop(0).After(0, c.tick)
		c.dialAll()
	}); err != nil {
		return Note{}, err
	}
	if s.Expendable {
		// The server may refuse an expendable client, so there may never be a connection.
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
	for _, d := range c.dialers {
		d.dial()
	}
}

func (c *client) report() (note Note) {
	// If the loop has ended, onLoop fails, and the report has no counters.
	_ = c.onLoop(func() {
		note.Tally = c.tally
		note.Tally.DialTimes = slices.Clone(c.tally.DialTimes)
	})
	return note
}

func (c *client) await() {}

// finish stops sending, waits for the outstanding echoes, and closes the client.
func (c *client) finish() (Note, error) {
	over := newEvent()
	err := c.onLoop(func() {
		c.finishing = over
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
		for _, d := range c.dialers {
			d.countLost()
		}
		note.Tally = c.tally
	})
	return note, errors.Join(err, c.close())
}

// check makes c.opened happen if the first dial of every dialer has succeeded or failed.
// It makes c.finishing happen if all echoes have arrived.
func (c *client) check() {
	all, idle := true, true
	for _, d := range c.dialers {
		all = all && d.attempted
		// An attack may end or block an expendable connection, so its echoes may never
		// arrive.
		idle = idle && (d.expendable || d.sent == d.echoed && d.state != dialerDialing)
	}
	if all {
		c.opened.happen()
	}
	if idle && c.finishing != nil {
		c.finishing.happen()
	}
}

// tick sends messages on each connection, and comes again after Spec.Pause. Up to
// Spec.MaxInFlight messages may be outstanding.
func (c *client) tick() {
	for _, d := range c.dialers {
		d.sendMore()
	}
	c.ticker.Reset(c.spec.Pause)
}

// OnOpen starts sending on the connection.
func (c *client) OnOpen(conn *reactor.Conn) { conn.UserData.(*dialer).onOpen(conn) }

// OnMessage compares an echo with its message.
func (c *client) OnMessage(conn *reactor.Conn, msg reactor.Message) {
	conn.UserData.(*dialer).checkEcho(msg.Data())
}

// OnClose counts the messages without an echo as lost.
func (c *client) OnClose(conn *reactor.Conn, err error) { conn.UserData.(*dialer).onClose(err) }

// OnDialError counts the connection as failed.
func (c *client) OnDialError(_ *reactor.Loop, _ netip.AddrPort, d *reactor.DialOptions, err error) {
	d.UserData.(*dialer).onDialError(err)
}
