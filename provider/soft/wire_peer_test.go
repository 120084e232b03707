//go:build linux

package soft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/netsim"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// answer is that n packets which were under way are answered.
func (p *wirePeer) answer(n uint64) {
	p.flight -= n
	p.grow(n)
}

func TestWirePeerGrowsAndShrinks(t *testing.T) {
	p := (&wireShard{}).peer(scriptAddr)
	require.EqualValues(t, firstFlight, p.window)

	p.flight = 4
	p.answer(4)
	require.EqualValues(t, firstFlight, p.window, "nothing is known of more than was tried")

	p.flight = p.window
	p.answer(firstFlight)
	require.EqualValues(t, 2*firstFlight, p.window, "twice as much in a round trip")

	p.flight = p.window
	p.shrink(p.flight)
	p.shrink(p.flight)
	require.EqualValues(t, firstFlight, p.window, "half, for one loss")
	p.answer(2 * firstFlight)
	for range 3 {
		p.flight = p.window
		p.answer(p.window)
	}
	require.EqualValues(t, firstFlight+4, p.window, "one more in a round trip")

	for range 20 {
		p.flight = p.window
		p.shrink(p.flight)
		p.answer(p.flight)
	}
	p.shrink(leastFlight)
	require.EqualValues(t, leastFlight, p.window)
	p.threshold = 2 * mostFlight
	for range 20 {
		p.flight = p.window
		p.answer(p.window)
	}
	require.EqualValues(t, mostFlight, p.window)
}

// A flight that is small because the window was not used is what gets halved.
func TestWirePeerShrinksWhatWasUsed(t *testing.T) {
	p := &wirePeer{window: mostFlight, threshold: mostFlight, flight: 40}
	p.shrink(p.flight)
	require.EqualValues(t, 20, p.window)
}

// A window that is small lets through what it says, and asks for an answer in
// time.
func TestWireSmallWindow(t *testing.T) {
	p := newScript(t)
	p.l.peer.window = 6
	p.post(1, verbs.OpSend, 20*scriptMTU)
	for i := range uint64(6) {
		op := wire.SendMiddle
		if i == 0 {
			op = wire.SendFirst
		}
		require.Equal(t, i >= 5 || p.l.peer.window/4 == 1, p.wantRequest("", op, i).BTH().AckReq(), "packet %d", i)
	}
	p.wantQuiet("the window is full")
	require.EqualValues(t, 6, p.l.peer.flight)
	p.send(p.ack(1))
	p.wantRequest("it has moved, and grown", wire.SendMiddle, 6)
	p.wantRequest("", wire.SendMiddle, 7)
	p.out = nil
	p.send(p.nak(wire.NAKSequence, 4))
	require.EqualValues(t, p.l.flight, p.l.peer.flight)
}

// Connections to one peer share the window, in turn, and one that fails gives its
// part back.
func TestWireSharedWindow(t *testing.T) {
	p := newScript(t)
	peer := p.l.peer
	other := &wireLink{q: p.l.q, s: p.l.s, to: p.l.to}
	other.peer = p.l.s.peer(scriptAddr)
	require.Same(t, peer, other.peer)
	require.Equal(t, 2, peer.users)

	peer.window = 8
	other.flight, peer.flight = 8, 8
	p.post(1, verbs.OpSend, 3*scriptMTU)
	p.wantRequest("one packet always may", wire.SendFirst, 0)
	p.wantQuiet("and no more")
	require.True(t, p.l.waits)
	require.Equal(t, []*wireLink{p.l}, peer.waiting)

	other.ground()
	require.False(t, p.l.waits)
	p.l.s.work()
	p.wantRequest("there is room now", wire.SendMiddle, 1)
	p.wantRequest("", wire.SendLast, 2)

	peer.window = 1
	p.post(2, verbs.OpSend, 1)
	require.True(t, p.l.waits)
	p.l.ground()
	require.Zero(t, peer.flight)
	require.Empty(t, peer.waiting)
	p.l.s.forget(other.peer)
	require.Same(t, peer, p.l.s.peers[scriptAddr])
	require.Equal(t, 1, peer.users)
}

// What waits for a receive buffer leaves its part to the others.
func TestWireWindowDuringRNR(t *testing.T) {
	p := newScript(t)
	p.post(1, verbs.OpSend, 3*scriptMTU)
	require.EqualValues(t, 3, p.l.peer.flight)
	p.send(p.syndrome(wire.RNRNAK(12), 0))
	require.Zero(t, p.l.peer.flight)
}

// A long stream over a network that holds few packets fills it, and loses few.
func TestWireStreamOverANarrowNetwork(t *testing.T) {
	const room, messages, size = 40, 60, endSize / 2
	for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead} {
		s := newSim(t, 1, netsim.Config{Room: room, Delay: 10 * time.Microsecond})
		a, b := s.newEnd(), s.newEnd()
		s.join(a, b)
		for i := range uint64(messages) {
			a.post(verbs.SendWR{ID: i, Opcode: op, Flags: verbs.SendSignaled,
				SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		}
		s.settle()
		require.Len(t, a.taken(), messages)
		lost := float64(s.net.Stats.Dropped) / float64(s.net.Stats.Sent)
		require.Positive(t, lost, "%v: it tries how much there is room for", op)
		require.Less(t, lost, 0.05, "%v: and keeps to that", op)
		if op == verbs.OpWrite {
			trips := float64(s.now) / float64(20*time.Microsecond)
			require.Greater(t, float64(messages*size/4096)/trips, room/4., "packets in a round trip")
		}
	}
}
