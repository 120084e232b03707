//go:build linux

package hostile

import (
	"bytes"
	"errors"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// A dialerState is the state of a dialer's connection.
type dialerState uint8

const (
	dialerIdle dialerState = iota // no connection, and not dialing
	dialerDialing
	dialerOpen // the connection is open
	// This side has closed the connection, and OnClose follows.
	dialerClosing
)

// A dialer keeps one connection to a server. When the connection ends, it dials again.
// Only the loop of its client uses it.
type dialer struct {
	client *client
	addr   netip.AddrPort // address of the server
	// An attack may end the connections: see Spec.Expendable.
	expendable bool
	seed       uint64
	state      dialerState
	// Connection of the dialer; nil if none is open or closing.
	conn      *reactor.Conn
	dialedAt  time.Time // time of the last dial
	attempted bool      // the first dial has succeeded or failed

	// Messages sent and echoes received on all connections so far.
	sent, echoed uint64
	// Messages sent before the present connection opened.
	sentAtOpen uint64
	// Times at which the outstanding messages were sent. The index is the message's
	// number modulo the length.
	sentTimes []time.Time
	out, want []byte
}

func newDialer(c *client, index int, addr netip.AddrPort, spare bool) *dialer {
	size := max(maxMessage, c.spec.MaxLongMessage)
	return &dialer{
		client: c, addr: addr, expendable: spare, seed: c.spec.Seed<<16 + uint64(index),
		sentTimes: make([]time.Time, c.spec.MaxInFlight), out: make([]byte, size), want: make([]byte, size),
	}
}

// dial dials the server, unless the client is finishing.
func (d *dialer) dial() {
	c := d.client
	if c.finishing != nil {
		c.check()
		return
	}
	d.state, d.dialedAt = dialerDialing, time.Now()
	if err := c.engine.Dial(d.addr, &reactor.DialOptions{LocalAddr: c.spec.localAddr(), UserData: d}); err != nil {
		d.onDialError(err)
	}
}

func (d *dialer) redial() {
	d.client.engine.Loop(0).After(redialAfter, func() {
		if d.state == dialerIdle {
			d.dial()
		}
	})
}

func (d *dialer) onOpen(conn *reactor.Conn) {
	d.state, d.conn, d.attempted, d.sentAtOpen = dialerOpen, conn, true, d.sent
	d.client.tally.Opened++
	if d.client.spec.RecordDials {
		d.client.tally.DialTimes = append(d.client.tally.DialTimes, time.Since(d.dialedAt))
	}
	d.sendMore()
	d.client.check()
}

func (d *dialer) onDialError(err error) {
	d.state, d.attempted = dialerIdle, true
	d.countFailure(err)
	d.client.check()
	d.redial()
}

// countFailure counts a connection that did not open or ended too early.
func (d *dialer) countFailure(err error) {
	t := &d.client.tally
	if d.expendable {
		t.Ends++
		return
	}
	t.Failed++
	if t.Cause == "" {
		t.Cause = err.Error()
	}
}

// countLost counts the messages without an echo as lost. An expendable dialer may lose
// messages.
func (d *dialer) countLost() {
	if !d.expendable {
		d.client.tally.Lost += d.sent - d.echoed
	}
	d.echoed = d.sent
}

// onClose is called when the connection has closed. If this side closed it, err is nil.
func (d *dialer) onClose(err error) {
	d.state, d.conn = dialerIdle, nil
	if err != nil && d.client.finishing == nil {
		d.countFailure(err)
	}
	d.countLost()
	d.client.check()
	if err == nil {
		d.dial()
	} else {
		d.redial()
	}
}

// sendMore sends messages until Spec.MaxInFlight are outstanding.
func (d *dialer) sendMore() {
	spec := &d.client.spec
	for d.state == dialerOpen && d.client.finishing == nil && d.sent-d.echoed < uint64(spec.MaxInFlight) {
		if spec.Messages > 0 && d.sent-d.sentAtOpen >= uint64(spec.Messages) {
			d.closeWhenDone()
			return
		}
		err := d.conn.Send(messageOf(d.out, d.seed, d.sent, spec.MaxLongMessage), nil)
		if errors.Is(err, reactor.ErrWouldBlock) {
			return // tick will call sendMore.
		}
		if err != nil {
			// Abort fails if the connection is ending already. OnClose follows in either
			// case.
			_ = d.conn.Abort(err)
			return
		}
		d.sentTimes[d.sent%uint64(len(d.sentTimes))] = d.conn.Loop().Now()
		d.sent++
	}
}

// closeWhenDone closes the connection when all messages have come back.
func (d *dialer) closeWhenDone() {
	if d.echoed == d.sent {
		d.state = dialerClosing
		// Close fails if the connection is ending already. OnClose follows.
		_ = d.conn.Close()
	}
}

// checkEcho compares an echo with the oldest outstanding message.
func (d *dialer) checkEcho(got []byte) {
	t := &d.client.tally
	switch {
	case d.echoed < d.sent && bytes.Equal(got, messageOf(d.want, d.seed, d.echoed, d.client.spec.MaxLongMessage)):
		t.Echoes++
	// A hostile server may send any message here.
	case d.expendable:
	default:
		t.Damaged++
	}
	if d.echoed < d.sent {
		t.took(time.Since(d.sentTimes[d.echoed%uint64(len(d.sentTimes))]))
		d.echoed++
	}
	d.client.check()
}
