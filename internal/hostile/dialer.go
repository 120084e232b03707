//go:build linux

package hostile

import (
	"bytes"
	"errors"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// A dialerState is the state of the connection of a dialer.
type dialerState uint8

const (
	dialerIdle    dialerState = iota // The dialer has no connection and has not dialed.
	dialerDialing                    // The dialer has dialed, and the dial has neither succeeded nor failed.
	dialerOpen                       // The connection is open, and messages are sent.
	dialerClosing                    // This side has closed the connection and waits for OnClose.
)

// A dialer makes one connection to a server after another: when a connection ends, it
// dials the next one. Only the loop of its client uses it.
type dialer struct {
	client     *client
	addr       netip.AddrPort // Address of the server.
	expendable bool           // The attack may end its connections: see Spec.Expendable.
	seed       uint64
	state      dialerState
	conn       *reactor.Conn // Nil unless state is dialerOpen or dialerClosing.
	dialedAt   time.Time     // Time of the last dial.
	attempted  bool          // The first dial has succeeded or failed.

	sent, echoed uint64      // Messages sent and echoes received, over all connections.
	sentAtOpen   uint64      // Value of sent when the present connection opened.
	sentTimes    []time.Time // Send times of the outstanding messages, by number modulo length.
	out, want    [maxMessage]byte
}

func newDialer(c *client, index int, addr netip.AddrPort, spare bool) *dialer {
	return &dialer{client: c, addr: addr, expendable: spare, seed: c.spec.Seed<<16 + uint64(index), sentTimes: make([]time.Time, c.spec.MaxInFlight)}
}

// dial starts a connection, unless the client is finishing.
func (d *dialer) dial() {
	c := d.client
	if c.finishing != nil {
		c.check()
		return
	}
	d.state, d.dialedAt = dialerDialing, time.Now()
	if err := c.engine.Dial(d.addr, &reactor.Dial{LocalAddr: c.from(), Context: d}); err != nil {
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

// countFailure counts a connection that did not open or that ended early.
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

// countLost counts the outstanding echoes of a closed connection as lost.
func (d *dialer) countLost() {
	if !d.expendable {
		d.client.tally.Lost += d.sent - d.echoed
	}
	d.echoed = d.sent
}

// onClose handles the end of a connection. err is nil if this side closed it.
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

// sendMore sends messages until Spec.MaxInFlight are in flight.
func (d *dialer) sendMore() {
	spec := &d.client.spec
	for d.state == dialerOpen && d.client.finishing == nil && d.sent-d.echoed < uint64(spec.MaxInFlight) {
		if spec.Messages > 0 && d.sent-d.sentAtOpen >= uint64(spec.Messages) {
			d.closeWhenDone()
			return
		}
		err := d.conn.Send(message(d.out[:], d.seed, d.sent))
		if errors.Is(err, reactor.ErrWouldBlock) {
			return // OnTick tries again.
		}
		if err != nil {
			// The connection is ending already, or Abort ends it; OnClose follows in both
			// cases.
			_ = d.conn.Abort(err)
			return
		}
		d.sentTimes[d.sent%uint64(len(d.sentTimes))] = d.conn.Loop().Now()
		d.sent++
	}
}

// closeWhenDone closes a connection that has sent all its messages, once all echoes
// have arrived.
func (d *dialer) closeWhenDone() {
	if d.echoed == d.sent {
		d.state = dialerClosing
		// Close fails if the connection is ending already; OnClose follows in both cases.
		_ = d.conn.Close()
	}
}

// checkEcho compares an echo with the oldest outstanding message. Echoes arrive in
// order.
func (d *dialer) checkEcho(got []byte) {
	t := &d.client.tally
	switch {
	case d.echoed < d.sent && bytes.Equal(got, message(d.want[:], d.seed, d.echoed)):
		t.Echoes++
	case d.expendable: // A hostile server may send anything.
	default:
		t.Damaged++
	}
	if d.echoed < d.sent {
		took := time.Since(d.sentTimes[d.echoed%uint64(len(d.sentTimes))])
		t.Longest = max(t.Longest, took)
		d.echoed++
	}
	d.client.check()
}
