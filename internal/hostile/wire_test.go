//go:build linux

package hostile_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
	"github.com/rdmaloop/rdmaloop/provider/soft"
)

// onWire begins a scene with packets.
func onWire(t *testing.T, s hostile.Spec) *scene {
	s.Path = soft.PathWire
	s.Addr = netip.AddrPortFrom(newAddr(), 0)
	return begin(t, s)
}

func wired(s hostile.Spec) hostile.Spec {
	s.Path = soft.PathWire
	return s
}

// Packets that no protocol asks for cost no connection and no memory, and are
// answered with fewer bytes than they have.
func TestNoise(t *testing.T) {
	// Some of the noise is a request by chance, which then stays half-open.
	sc := onWire(t, hostile.Spec{ConnectTimeout: 10 * time.Second})
	from := newAddr()
	newAddr() // the attacker takes two
	did := sc.attack(hostile.RoleNoise, sameUser, wired(hostile.Spec{From: from, Seed: 4, Rounds: 100, Interval: 5 * time.Millisecond}))
	t.Logf("%+v", did)
	require.Less(t, did.ReceivedBytes, did.SentBytes)
	sc.grewBy(64 * mebi)
	sc.end()
}

// A peer that breaks the rules on its connections loses these.
func TestVandal(t *testing.T) {
	sc := onWire(t, hostile.Spec{})
	did := sc.attack(hostile.RoleVandal, sameUser, wired(hostile.Spec{Seed: 6, Rounds: 40}))
	t.Logf("%+v", did)
	sc.grewBy(64 * mebi)
	sc.end()
}

// One address that takes all connections that it can get leaves room for others.
func TestHoarder(t *testing.T) {
	sc := onWire(t, hostile.Spec{MaxConnsPerAddress: 50})
	hoarder, _ := sc.start(hostile.RoleHoarder, sameUser, wired(hostile.Spec{Seed: 6, Rounds: 100}))
	note, err := hoarder.Await()
	require.NoError(t, err)
	t.Logf("%+v", note.Attack)
	// A connection counts when the server has seen that its peer is ready, which may
	// be after the next request: some more are let in.
	require.GreaterOrEqual(t, note.Attack.Admitted, uint64(50))
	require.LessOrEqual(t, note.Attack.Admitted, uint64(60))
	admitted(sc, wired(hostile.Spec{}))
	_, err = hoarder.Finish()
	require.NoError(t, err)
	sc.grewBy(64 * mebi)
	sc.end()
}

// What comes from another address than the peer's does nothing to a connection, even
// if the sender knows all the numbers.
func TestInjector(t *testing.T) {
	// What claims to be a request of the peer stays half-open.
	sc := onWire(t, hostile.Spec{ConnectTimeout: 10 * time.Second})
	from := newAddr()
	newAddr() // the injector takes two
	did := sc.attack(hostile.RoleInjector, sameUser, wired(hostile.Spec{From: from, Seed: 5, Rounds: 60}))
	t.Logf("%+v", did)
	require.EqualValues(t, 60, did.Received)
	sc.end()
}

// Messages of which only the first half was sent hold the buffers of a shared queue
// for a while, and not for ever.
func TestHalves(t *testing.T) {
	sc := onWire(t, hostile.Spec{SRQ: 64})
	halves, _ := sc.start(hostile.RoleHalves, sameUser, wired(hostile.Spec{Conns: 80}))
	note, err := halves.Await()
	require.NoError(t, err)
	t.Logf("%+v", note.Attack)
	sc.echoes(1000)
	_, err = halves.Finish()
	require.NoError(t, err)
	sc.end()
}

// Requests from many addresses that nobody follows up are answered with a bounded
// number of bytes, take bounded memory, and keep nobody else from connecting.
func TestFlood(t *testing.T) {
	sc := onWire(t, hostile.Spec{ConnectTimeout: 10 * time.Second})
	churn, _ := sc.start(hostile.RoleClient, sameUser, wired(hostile.Spec{Conns: 2, Messages: 1, Seed: 2}))
	did := sc.attack(hostile.RoleFlood, sameUser, wired(hostile.Spec{
		From: hostile.FloodAddr(), Sources: 250, Seed: 6, Rounds: 200, Interval: 10 * time.Millisecond,
	}))
	t.Logf("%+v", did)
	require.LessOrEqual(t, did.ReceivedBytes, 3*did.SentBytes)
	opened := sc.report(churn).Tally.Opened
	sc.eventually(func() bool { return sc.report(churn).Tally.Opened > opened }, "others connect")
	note, err := churn.Finish()
	require.NoError(t, err)
	t.Logf("others: %+v", note.Tally)
	require.Zero(t, note.Tally.Lost+note.Tally.Damaged+note.Tally.Failed, "%+v", note.Tally)
	sc.grewBy(64 * mebi)
	sc.end()
}
