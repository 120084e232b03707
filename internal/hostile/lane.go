//go:build linux

package hostile

import (
	"bytes"
	"errors"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// A laneState is the state of the connection of a lane.
type laneState uint8

const (
	laneIdle    laneState = iota // the lane has no connection, and has not dialed
	laneDialing                  // the lane has dialed, and the connection is neither open nor refused
	laneOpen                     // the connection is open, and messages are sent
	laneClosing                  // this side has closed the connection, and waits for OnClose
)

// A lane is a sequence of connections to the server. When a connection ends, the lane
// dials the next one. Only the loop of its client uses it.
type lane struct {
	client *client
	addr   netip.AddrPort // address of the server
	spare  bool           // the attack may end its connections: see Spec.Expendable
	seed   uint64
	state  laneState
	conn   *reactor.Conn // the connection; nil unless state is laneOpen or laneClosing
	dialed time.Time     // time of the last dial
	tried  bool          // the first connection has opened, or has failed

	sent, seen uint64      // messages sent and echoes received, over all connections
	begun      uint64      // value of sent when the present connection opened
	times      []time.Time // send time of each outstanding message, by number modulo length
	out, want  [maxMessage]byte
}

func newLane(c *client, index int, addr netip.AddrPort, spare bool) *lane {
	return &lane{client: c, addr: addr, spare: spare, seed: c.spec.Seed<<16 + uint64(index), times: make([]time.Time, c.spec.Window)}
}

// dial starts a connection, unless the client is finishing.
func (l *lane) dial() {
	c := l.client
	if c.ending != nil {
		c.check()
		return
	}
	l.state, l.dialed = laneDialing, time.Now()
	if err := c.engine.Dial(l.addr, &reactor.Dial{LocalAddr: c.from(), Context: l}); err != nil {
		l.refused(err)
	}
}

func (l *lane) redial() {
	l.client.engine.Loop(0).After(redialAfter, func() {
		if l.state == laneIdle {
			l.dial()
		}
	})
}

func (l *lane) open(conn *reactor.Conn) {
	l.state, l.conn, l.tried, l.begun = laneOpen, conn, true, l.sent
	l.client.tally.Opened++
	if l.client.spec.Timed {
		l.client.tally.Took = append(l.client.tally.Took, time.Since(l.dialed))
	}
	l.pump()
	l.client.check()
}

func (l *lane) refused(err error) {
	l.state, l.tried = laneIdle, true
	l.failed(err)
	l.client.check()
	l.redial()
}

// failed counts a connection that did not open, or that ended early.
func (l *lane) failed(err error) {
	t := &l.client.tally
	if l.spare {
		t.Ends++
		return
	}
	t.Failed++
	if t.Cause == "" {
		t.Cause = err.Error()
	}
}

// giveUp counts the outstanding echoes of a closed connection as lost.
func (l *lane) giveUp() {
	if !l.spare {
		l.client.tally.Lost += l.sent - l.seen
	}
	l.seen = l.sent
}

// close handles the end of a connection. err is nil if this side closed it.
func (l *lane) close(err error) {
	l.state, l.conn = laneIdle, nil
	if err != nil && l.client.ending == nil {
		l.failed(err)
	}
	l.giveUp()
	l.client.check()
	if err == nil {
		l.dial()
	} else {
		l.redial()
	}
}

// pump sends as many messages as the window allows.
func (l *lane) pump() {
	spec := &l.client.spec
	for l.state == laneOpen && l.client.ending == nil && l.sent-l.seen < uint64(spec.Window) {
		if spec.Messages > 0 && l.sent-l.begun >= uint64(spec.Messages) {
			l.rest()
			return
		}
		err := l.conn.Send(message(l.out[:], l.seed, l.sent))
		if errors.Is(err, reactor.ErrWouldBlock) {
			return // OnTick tries again
		}
		if err != nil {
			// The connection is ending already, or Abort ends it; OnClose follows in both
			// cases.
			_ = l.conn.Abort(err)
			return
		}
		l.times[l.sent%uint64(len(l.times))] = l.conn.Loop().Now()
		l.sent++
	}
}

// rest closes a connection that has sent all its messages, once all echoes have
// arrived.
func (l *lane) rest() {
	if l.seen == l.sent {
		l.state = laneClosing
		// Close fails if the connection is ending already; OnClose follows in both cases.
		_ = l.conn.Close()
	}
}

// echo compares an echo with the oldest outstanding message. Echoes arrive in order.
func (l *lane) echo(got []byte) {
	t := &l.client.tally
	switch {
	case l.seen < l.sent && bytes.Equal(got, message(l.want[:], l.seed, l.seen)):
		t.Echoes++
	case l.spare: // a hostile server may send anything
	default:
		t.Damaged++
	}
	if l.seen < l.sent {
		took := time.Since(l.times[l.seen%uint64(len(l.times))])
		t.Longest = max(t.Longest, took)
		l.seen++
	}
	l.client.check()
}
