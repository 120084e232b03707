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

// onWire begins a scene on the wire path.
func onWire(t *testing.T, s hostile.Spec) *scene {
	s.Path = soft.PathWire
	s.Addr = netip.AddrPortFrom(newAddr(), 0)
	return begin(t, s)
}

func wired(s hostile.Spec) hostile.Spec {
	s.Path = soft.PathWire
	return s
}

// Invalid packets end no connection and use bounded memory. The server answers them
// with fewer bytes than they have.
func TestNoise(t *testing.T) {
	// Some of the noise is by chance a valid request, whose connection stays half-open
	// until ConnectTimeout.
	sc := onWire(t, hostile.Spec{ConnectTimeout: 10 * time.Second})
	from := newAddr()
	newAddr() // the attacker uses two addresses
	did := sc.attack(hostile.RoleNoise, sameUser, wired(hostile.Spec{From: from, Seed: 4, Rounds: 100, Interval: 5 * time.Millisecond}))
	t.Logf("%+v", did)
	require.Less(t, did.ReceivedBytes, did.SentBytes)
	sc.grewBy(64 * mebi)
	sc.end()
}

// A peer that violates the protocol on its connections loses only these connections.
func TestVandal(t *testing.T) {
	sc := onWire(t, hostile.Spec{})
	did := sc.attack(hostile.RoleVandal, sameUser, wired(hostile.Spec{Seed: 6, Rounds: 40}))
	t.Logf("%+v", did)
	sc.grewBy(64 * mebi)
	sc.end()
}

// When one address opens as many connections as the server admits, there is room for
// others.
func TestHoarder(t *testing.T) {
	sc := onWire(t, hostile.Spec{MaxConnsPerAddress: 50})
	hoarder, _ := sc.start(hostile.RoleHoarder, sameUser, wired(hostile.Spec{Seed: 6, Rounds: 100}))
	note, err := hoarder.Await()
	require.NoError(t, err)
	t.Logf("%+v", note.Attack)
	// The server counts a connection when it has received the RTU, which may be after the
	// next request. So it admits a few more than the limit.
	require.GreaterOrEqual(t, note.Attack.Admitted, uint64(50))
	require.LessOrEqual(t, note.Attack.Admitted, uint64(60))
	admitted(sc, wired(hostile.Spec{}))
	_, err = hoarder.Finish()
	require.NoError(t, err)
	sc.grewBy(64 * mebi)
	sc.end()
}

// Packets from another address than the peer's do not end a connection, even if the
// sender knows all numbers of the connection.
func TestInjector(t *testing.T) {
	// A forged request of the peer leaves a half-open connection until ConnectTimeout.
	sc := onWire(t, hostile.Spec{ConnectTimeout: 10 * time.Second})
	from := newAddr()
	newAddr() // the injector uses two addresses
	did := sc.attack(hostile.RoleInjector, sameUser, wired(hostile.Spec{From: from, Seed: 5, Rounds: 60}))
	t.Logf("%+v", did)
	require.EqualValues(t, 60, did.Received)
	sc.end()
}

// Messages of which only the first half arrives hold the buffers of a shared receive
// queue for a limited time.
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

// A flood of requests from many addresses gets a bounded number of bytes in answer,
// takes bounded memory, and does not keep other clients from connecting.
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
