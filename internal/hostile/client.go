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
	// redialAfter is the pause before a client dials again after a connection has failed.
	// Arbitrary.
	redialAfter = 50 * time.Millisecond
	// echoLimit is the maximum time that a client waits for its outstanding echoes when
	// it finishes. After that the client reports the missing echoes, so that a test
	// cannot hang. Arbitrary.
	echoLimit = time.Minute
)

// A client sends messages to a server and compares the echoes with them. After the
// client's loop has started, only that loop uses the fields.
type client struct {
	reactor.BaseHandler
	node
	spec    Spec
	tally   Tally
	dialers []*dialer
	// This event happens when the first dial of every dialer has succeeded or failed.
	opened *event
	// This event happens when the client has been told to finish and all outstanding
	// echoes have arrived. Nil until the client is told to finish.
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
	if err := c.onLoop(c.dialAll); err != nil {
		return Note{}, err
	}
	if s.Expendable {
		// The server may refuse the connections of an expendable client. So start does
		// not wait until the connections are open.
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
	// onLoop fails if the loop has ended. In that case the report has no counters.
	_ = c.onLoop(func() {
		note.Tally = c.tally
		note.Tally.DialTimes = slices.Clone(c.tally.DialTimes)
	})
	return note
}

func (c *client) await() {}

// finish makes the client stop sending, waits for the outstanding echoes, and closes the
// client.
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

// check looks at all dialers. If the first dial of every dialer has succeeded or failed,
// the event opened happens. If the client has been told to finish and all outstanding
// echoes have arrived, the event finishing happens.
func (c *client) check() {
	all, idle := true, true
	for _, d := range c.dialers {
		all = all && d.attempted
		// finish does not wait for the echoes of an expendable connection, because an
		// attack may end or block such a connection.
		idle = idle && (d.expendable || d.sent == d.echoed && d.state != dialerDialing)
	}
	if all {
		c.opened.happen()
	}
	if idle && c.finishing != nil {
		c.finishing.happen()
	}
}

// OnTick sends messages until Spec.MaxInFlight are in flight on each connection.
func (c *client) OnTick(*reactor.Loop) time.Duration {
	for _, d := range c.dialers {
		d.sendMore()
	}
	return c.spec.Pause
}

// OnOpen starts sending on the connection.
func (c *client) OnOpen(conn *reactor.Conn) { conn.Context().(*dialer).onOpen(conn) }

// OnMessage compares an echo with the message that was sent.
func (c *client) OnMessage(conn *reactor.Conn, msg reactor.Message) {
	conn.Context().(*dialer).checkEcho(msg.Data())
}

// OnClose is called when a connection has closed. It counts the messages of the
// connection that have no echo as lost.
func (c *client) OnClose(conn *reactor.Conn, err error) { conn.Context().(*dialer).onClose(err) }

// OnDialError counts the connection as failed.
func (c *client) OnDialError(d *reactor.DialOptions, err error) { d.Context.(*dialer).onDialError(err) }

// localAddr returns the address from which the client dials: Spec.From with any port, or
// the zero value if Spec.From is not set.
func (c *client) localAddr() (addr netip.AddrPort) {
	if c.spec.From.IsValid() {
		addr = netip.AddrPortFrom(c.spec.From, 0)
	}
	return addr
}
