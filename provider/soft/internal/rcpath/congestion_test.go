//go:build linux

package rcpath

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newTestCongestion returns a congestion that has no connections.
func newTestCongestion() *congestion {
	p := (&Conns{}).acquireCongestion(scriptAddr)
	p.conns = 0
	return p
}

// newTestConn adds a connection to a congestion.
func newTestConn(p *congestion) *connCongestion {
	f := &connCongestion{}
	p.conns++
	f.join(p, roomFunc(func() {}))
	return f
}

// send counts n more packets of the connection as in flight.
func (c *connCongestion) send(n uint64) {
	c.inFlight += n
	c.shared.inFlight += n
}

// ack counts n packets in flight as acknowledged.
func (c *connCongestion) ack(n uint64) {
	c.inFlight -= n
	c.shared.inFlight -= n
	c.grow(n)
}

// roundTrip fills the congestion window with packets of the connection. Then it
// acknowledges all packets of the connection.
func (c *connCongestion) roundTrip() {
	c.send(c.shared.window - c.shared.inFlight)
	c.ack(c.inFlight)
}

// lose reports the loss of one packet in flight.
func (c *connCongestion) lose() { c.shrink(c.inFlight) }

func TestCongestionGrowsAndShrinks(t *testing.T) {
	p := newTestCongestion()
	f := newTestConn(p)
	require.EqualValues(t, initialWindow, p.window)

	f.send(4)
	f.ack(4)
	require.EqualValues(t, initialWindow, p.window, "a window that is not half used does not grow")

	f.roundTrip()
	require.EqualValues(t, 2*initialWindow, p.window, "the window doubles in a round trip")

	f.send(p.window)
	f.lose()
	f.lose()
	require.EqualValues(t, initialWindow, p.window, "two losses in one flight halve the window once")
	require.EqualValues(t, initialWindow, f.ownWindow)
	f.ack(2 * initialWindow)
	was := p.window
	for range 3 {
		f.roundTrip()
	}
	require.EqualValues(t, was+3, p.window, "the window grows by one in each round trip")
	require.Greater(t, f.ownWindow, uint64(initialWindow))

	for range 20 {
		f.send(p.window)
		f.lose()
		f.ack(f.inFlight)
	}
	f.shrink(minWindow)
	require.EqualValues(t, minWindow, p.window)
	require.EqualValues(t, minWindow, f.ownWindow)
	f.ssthresh = 2 * maxWindow
	for range 20 {
		f.roundTrip()
	}
	require.EqualValues(t, maxWindow, p.window)
}

// If the window was not full at a loss, the new window is half of the packets in flight.
func TestCongestionShrinksUsedWindow(t *testing.T) {
	p := &congestion{window: maxWindow, sharedPart: maxWindow}
	f := newTestConn(p)
	f.send(40)
	f.lose()
	require.EqualValues(t, 20, p.window)
}

// If one connection loses packets, the other connections keep their parts of the window.
// If all connections lose packets, the window is halved.
func TestCongestionLossesOfOneConn(t *testing.T) {
	p := newTestCongestion()
	honest, lossy := newTestConn(p), newTestConn(p)
	for p.window < 200 {
		honest.roundTrip()
	}
	earned := honest.part
	for range 1000 {
		half := p.window / 2
		honest.send(half)
		lossy.send(min(lossy.ownWindow, p.window-half))
		lossy.lose()
		lossy.ack(lossy.inFlight)
		honest.ack(half)
		require.GreaterOrEqual(t, honest.part, earned)
		require.GreaterOrEqual(t, int64(p.window), honest.part+initialWindow/2)
		earned = honest.part
	}
	require.Greater(t, p.window, uint64(200))
	require.EqualValues(t, maxConnWindow, honest.ownWindow)
	require.Less(t, lossy.ownWindow, uint64(2*minWindow))

	// Now two connections lose their packets in flight.
	was, flights := p.window, []*connCongestion{honest, newTestConn(p)}
	for _, f := range flights {
		f.part, p.sharedPart = int64(p.window/2), 0
		f.send(p.window / 2)
	}
	lossy.part = 0
	for _, f := range flights {
		f.lose()
	}
	require.InDelta(t, was/2, p.window, 2)
}

// A connection that reports false losses makes the shared window smaller, but only by
// what it has added and by an equal share of the rest. Another connection stays in slow
// start.
func TestCongestionFakedLosses(t *testing.T) {
	p := newTestCongestion()
	honest, lossy := newTestConn(p), newTestConn(p)
	for range 100 {
		lossy.send(1)
		lossy.lose()
		lossy.ack(1)
	}
	require.EqualValues(t, initialWindow/2, p.window, "the losses take its share of the common part")
	was := p.window
	honest.roundTrip()
	require.Equal(t, 2*was, p.window, "the window doubles in a round trip")
	lossy.roundTrip()
	require.Equal(t, 2*was+1, p.window, "the connection with the losses has left slow start")
	for range 100 {
		lossy.leave()
		p.conns--
		lossy = newTestConn(p)
		lossy.send(1)
		lossy.lose()
		lossy.ack(1)
	}
	require.GreaterOrEqual(t, int64(p.window), honest.part+initialWindow/2)
}

// Each connection may have an equal share of the window in flight. A connection that
// needs more waits while the window is full. The connection that has waited longest
// continues first.
func TestCongestionWaits(t *testing.T) {
	p := newTestCongestion()
	p.window = 12
	var order []string
	add := func(name string) *connCongestion {
		f := newTestConn(p)
		f.conn = roomFunc(func() { order = append(order, name) })
		return f
	}
	a, b, c := add("a"), add("b"), add("c")
	require.True(t, c.allows(12), "nothing is in flight")
	c.send(12)
	require.True(t, a.allows(4), "a third of the window")
	a.send(4)
	for _, f := range []*connCongestion{a, a, b} {
		require.False(t, f.allows(5))
	}
	require.Len(t, p.waiting, 2, "a connection waits once")
	p.resume()
	require.Empty(t, order, "there is no room")
	c.setInFlight(0)
	p.resume()
	require.Equal(t, []string{"a"}, order)
	require.False(t, a.waiting)
	b.leave()
	require.False(t, b.waiting)
	require.Empty(t, p.waiting)
	a.leave()
	require.Zero(t, p.inFlight)
}

// The congestion window is always the sum of the connections' parts and the common part.
func TestCongestionParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := newTestCongestion()
	flights := []*connCongestion{newTestConn(p), newTestConn(p), newTestConn(p)}
	for range 100_000 {
		f := flights[rng.IntN(len(flights))]
		switch rng.IntN(9) {
		case 0, 1, 2:
			f.send(rng.Uint64N(64))
		case 3, 4, 5:
			f.ack(rng.Uint64N(f.inFlight + 1))
		case 6:
			f.lose()
		case 7:
			f.ack(f.inFlight)
			f.leave()
			p.conns--
			*f = *newTestConn(p)
		default:
			f.shrink(rng.Uint64N(200))
		}
		sum, bounded := p.sharedPart, minWindow <= p.window && p.window <= maxWindow
		for _, f := range flights {
			sum += f.part
			bounded = bounded && minWindow <= f.ownWindow && f.ownWindow <= maxConnWindow
		}
		if !bounded || int64(p.window) != sum { // Functions of package require are slow.
			require.FailNow(t, "wrong windows", "window %d, sum of the parts %d, connections %v", p.window, sum, flights)
		}
	}
}

// A connection sends no more packets than the window allows. In a small window it
// requests an acknowledgement early.
func TestWireSmallWindow(t *testing.T) {
	p := newScript(t)
	p.conn.cong.shared.window = 6
	p.post(1, verbs.OpSend, 20*scriptMTU)
	for i := range uint64(6) {
		op := wire.SendMiddle
		if i == 0 {
			op = wire.SendFirst
		}
		require.Equal(t, i >= 5 || p.conn.cong.shared.window/4 == 1, p.wantRequest("", op, i).BTH().AckReq(), "packet %d", i)
	}
	p.wantQuiet("the window is full")
	require.EqualValues(t, 6, p.conn.cong.shared.inFlight)
	p.send(p.ack(1))
	p.wantRequest("the window has moved and has grown", wire.SendMiddle, 6)
	p.wantRequest("", wire.SendMiddle, 7)
	p.out = nil
	p.send(p.nak(wire.NAKSequence, 4))
	require.EqualValues(t, p.conn.cong.inFlight, p.conn.cong.shared.inFlight)
}

// Connections to one peer address share a window. Each may send its equal share. When
// one fails, the other may use the whole window.
func TestWireSharedWindow(t *testing.T) {
	p := newScript(t)
	peer := p.conn.cong.shared
	other := &Conn{q: p.conn.q, demux: p.conn.demux, to: p.conn.to}
	other.cong.shared = p.conn.all.acquireCongestion(scriptAddr)
	require.Same(t, peer, other.cong.shared)
	require.Equal(t, 2, peer.conns)

	peer.window = 8
	other.cong.inFlight, peer.inFlight = 8, 8
	p.post(1, verbs.OpSend, 6*scriptMTU)
	p.wantRequest("a connection may always send its share", wire.SendFirst, 0)
	for i := range uint64(3) {
		p.wantRequest("the share is half of the window", wire.SendMiddle, i+1)
	}
	p.wantQuiet("the share is used up")
	require.True(t, p.conn.cong.waiting)
	require.Equal(t, []*connCongestion{&p.conn.cong}, peer.waiting)

	other.cong.leave()
	require.False(t, p.conn.cong.waiting)
	p.conn.demux.SendDue()
	p.wantRequest("the other connection has released its part", wire.SendMiddle, 4)
	p.wantRequest("", wire.SendLast, 5)

	peer.window = 1
	p.post(2, verbs.OpSend, 1)
	require.True(t, p.conn.cong.waiting)
	p.conn.cong.leave()
	require.Zero(t, peer.inFlight)
	require.Empty(t, peer.waiting)
	p.conn.all.releaseCongestion(other.cong.shared)
	require.Same(t, peer, p.conn.all.congestions[scriptAddr])
	require.Equal(t, 1, peer.conns)
}

// Requests that wait for the RNR timer are not in flight, because the peer has dropped
// them.
func TestWireWindowDuringRNR(t *testing.T) {
	p := newScript(t)
	p.post(1, verbs.OpSend, 3*scriptMTU)
	require.EqualValues(t, 3, p.conn.cong.shared.inFlight)
	p.send(p.syndrome(wire.RNRNAK(12), 0))
	require.Zero(t, p.conn.cong.shared.inFlight)
}

// If an RNR NAK fails the connection, its packets are no longer in flight.
func TestWireWindowAfterLastRNR(t *testing.T) {
	p := newScript(t, func(attr *verbs.QPAttr) { attr.RNRRetry = 0 })
	p.post(1, verbs.OpSend, 3*scriptMTU)
	p.send(p.syndrome(wire.RNRNAK(12), 0))
	require.Equal(t, verbs.StateError, p.e.QP.State())
	require.Zero(t, p.conn.cong.shared.inFlight)
}

// A long stream fills a narrow network and loses fewer than 5 % of its packets.
func TestWireStreamOverANarrowNetwork(t *testing.T) {
	const room, messages, size = 40, 60, qptest.EndSize / 2
	for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead} {
		s := newSim(t, 1, netsim.Config{Limit: room, Delay: 10 * time.Microsecond})
		a, b := s.NewEnd(), s.NewEnd()
		s.Join(a, b)
		for i := range uint64(messages) {
			a.Post(verbs.SendWR{ID: i, Opcode: op, Flags: verbs.SendSignaled,
				SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, size)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()})
		}
		s.Settle()
		require.Len(t, a.DrainCQ(), messages)
		lost := float64(s.Net.Stats.Dropped) / float64(s.Net.Stats.Sent)
		require.Positive(t, lost, "%v: the sender finds the limit by losing packets", op)
		require.Less(t, lost, 0.05, "%v: the sender stays close to the limit", op)
		if op == verbs.OpWrite {
			trips := float64(s.Now) / float64(20*time.Microsecond)
			require.Greater(t, float64(messages*size/4096)/trips, room/4., "packets in a round trip")
		}
	}
}

// A roomFunc is a roomWaiter that calls a function.
type roomFunc func()

func (f roomFunc) onRoom() { f() }
