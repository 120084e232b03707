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

// newWireFixture makes a fixture on the wire path.
func newWireFixture(t *testing.T, s hostile.Spec) *fixture {
	s.Path = soft.PathWire
	s.Addr = netip.AddrPortFrom(newAddr(), 0)
	return newFixture(t, s)
}

func withWirePath(s hostile.Spec) hostile.Spec {
	s.Path = soft.PathWire
	return s
}

// Invalid packets end no connection, and the memory for them is bounded. The server's
// answers have fewer bytes than the packets.
func TestInvalidPackets(t *testing.T) {
	// Some of the invalid packets are by chance valid requests. Their connections stay
	// half-open until ConnectTimeout.
	f := newWireFixture(t, hostile.Spec{ConnectTimeout: 10 * time.Second})
	from := newAddr()
	newAddr() // The attacker uses two addresses.
	did := f.attack(hostile.RoleInvalid, sameUser, withWirePath(hostile.Spec{From: from, Seed: 4, Rounds: 100, Interval: 5 * time.Millisecond}))
	t.Logf("%+v", did)
	require.Less(t, did.ReceivedBytes, did.SentBytes)
	f.requireGrowthBelow(64 * mebi)
	f.finish()
}

// A peer that violates the protocol on its connections loses only these connections.
func TestProtocolViolations(t *testing.T) {
	f := newWireFixture(t, hostile.Spec{})
	did := f.attack(hostile.RoleViolator, sameUser, withWirePath(hostile.Spec{Seed: 6, Rounds: 40}))
	t.Logf("%+v", did)
	f.requireGrowthBelow(64 * mebi)
	f.finish()
}

// If one address opens as many connections as the server accepts, others can still
// connect.
func TestIdleConnections(t *testing.T) {
	f := newWireFixture(t, hostile.Spec{MaxConnsPerAddress: 50})
	idler, _ := f.start(hostile.RoleIdler, sameUser, withWirePath(hostile.Spec{Seed: 6, Rounds: 100}))
	note, err := idler.Await()
	require.NoError(t, err)
	t.Logf("%+v", note.Attack)
	// The server counts a connection when it has received the RTU, which may be after
	// the next request. So it accepts a few more connections than the limit.
	require.GreaterOrEqual(t, note.Attack.Admitted, uint64(50))
	require.LessOrEqual(t, note.Attack.Admitted, uint64(60))
	requireAdmitted(f, withWirePath(hostile.Spec{}))
	_, err = idler.Finish()
	require.NoError(t, err)
	f.requireGrowthBelow(64 * mebi)
	f.finish()
}

// Packets from an address other than the peer's do not end a connection, even if the
// sender knows all numbers of the connection.
func TestInjection(t *testing.T) {
	// A spoofed request of the peer leaves a half-open connection until ConnectTimeout.
	f := newWireFixture(t, hostile.Spec{ConnectTimeout: 10 * time.Second})
	from := newAddr()
	newAddr() // The attacker uses two addresses.
	did := f.attack(hostile.RoleInjector, sameUser, withWirePath(hostile.Spec{From: from, Seed: 5, Rounds: 60}))
	t.Logf("%+v", did)
	require.EqualValues(t, 60, did.Received)
	f.finish()
}

// Half messages hold the buffers of a shared receive queue for a limited time.
func TestHalfMessages(t *testing.T) {
	f := newWireFixture(t, hostile.Spec{SRQ: 64})
	halves, _ := f.start(hostile.RoleHalves, sameUser, withWirePath(hostile.Spec{Conns: 80}))
	note, err := halves.Await()
	require.NoError(t, err)
	t.Logf("%+v", note.Attack)
	f.waitEchoes(1000)
	_, err = halves.Finish()
	require.NoError(t, err)
	f.finish()
}

// A flood of requests from many addresses gets a bounded number of bytes in answer,
// uses bounded memory, and does not keep other clients from connecting.
func TestFlood(t *testing.T) {
	f := newWireFixture(t, hostile.Spec{ConnectTimeout: 10 * time.Second})
	churn, _ := f.start(hostile.RoleClient, sameUser, withWirePath(hostile.Spec{Conns: 2, Messages: 1, Seed: 2}))
	did := f.attack(hostile.RoleFlood, sameUser, withWirePath(hostile.Spec{
		From: hostile.FloodAddr(), Sources: 250, Seed: 6, Rounds: 200, Interval: 10 * time.Millisecond,
	}))
	t.Logf("%+v", did)
	require.LessOrEqual(t, did.ReceivedBytes, 3*did.SentBytes)
	opened := f.report(churn).Tally.Opened
	f.eventually(func() bool { return f.report(churn).Tally.Opened > opened }, "other clients cannot connect")
	note, err := churn.Finish()
	require.NoError(t, err)
	t.Logf("others: %+v", note.Tally)
	require.Zero(t, note.Tally.Lost+note.Tally.Damaged+note.Tally.Failed, "%+v", note.Tally)
	f.requireGrowthBelow(64 * mebi)
	f.finish()
}
