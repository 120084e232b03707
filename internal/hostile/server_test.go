//go:build linux

package hostile_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// TestCorruptingServer checks that a client keeps its connections to a correct server
// while another server corrupts shared memory.
func TestCorruptingServer(t *testing.T) {
	f := newFixture(t, hostile.Spec{})
	corrupting, note := start(t, hostile.RoleCorruptingServer, sameUser, hostile.Spec{Addr: netip.MustParseAddrPort("127.0.0.1:0"), Seed: 9})
	requireSurvives(f, hostile.Spec{SecondAddr: note.Addr})
	_, err := corrupting.Finish()
	require.NoError(t, err, "the server must survive, too")
	f.finish()
}

// TestWrongReplies checks that a client keeps its connections to a correct server while
// another server replies wrongly.
func TestWrongReplies(t *testing.T) {
	f := newWireFixture(t, hostile.Spec{})
	from := newAddr()
	corrupting, _ := f.start(hostile.RoleWrongReplies, sameUser, withWirePath(hostile.Spec{From: from, Seed: 9}))
	requireSurvives(f, silent(going(withWirePath(hostile.Spec{SecondAddr: netip.AddrPortFrom(from, 7471), ConnectTimeout: 2 * time.Second}))))
	_, err := corrupting.Finish()
	require.NoError(t, err)
	f.finish()
}

// requireSurvives starts a client of a correct server and a hostile one. The client must
// keep its connections to the correct server, and its memory must not grow.
func requireSurvives(f *fixture, s hostile.Spec) {
	f.t.Helper()
	s.Conns, s.Seed, s.Pause = 4, 3, short(clientPause, 0)
	client, _ := f.start(hostile.RoleClient, sameUser, s)
	usage := func() hostile.Usage {
		u, err := hostile.UsageOf(client.PID())
		require.NoError(f.t, err)
		return u
	}
	before := usage()
	f.eventually(func() bool {
		tally := f.report(client).Tally
		return tally.Ends > short[uint64](4, 12) && tally.Echoes > 100
	}, "the connections to the hostile server do not end, or the others get no echoes")
	grown := int64(usage().Peak) - int64(before.Resident)
	f.t.Logf("the client's memory grew by %.1f MiB at most", float64(grown)/mebi)
	require.Less(f.t, grown, int64(64*mebi*memoryFactor))
	require.LessOrEqual(f.t, usage().Descriptors, before.Descriptors+4*8)
	note, err := client.Finish()
	require.NoError(f.t, err)
	f.t.Logf("client: %+v", note.Tally)
	require.Zero(f.t, note.Tally.Lost+note.Tally.Damaged+note.Tally.Failed, "%+v", note.Tally)
}
