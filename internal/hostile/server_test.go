//go:build linux

package hostile_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// When a server writes random bytes into the memory that it shares with its clients,
// they lose their connections to that server, and no others.
func TestMadServer(t *testing.T) {
	sc := begin(t, hostile.Spec{})
	mad, note := start(t, hostile.RoleMadServer, sameUser, hostile.Spec{Addr: netip.MustParseAddrPort("127.0.0.1:0"), Seed: 9})
	survives(sc, hostile.Spec{Also: note.Addr})
	_, err := mad.Finish()
	require.NoError(t, err, "the server is well, too")
	sc.end()
}

// When a server on the wire path answers with wrong replies, its clients lose their
// connections to that server, and no others.
func TestMadWireServer(t *testing.T) {
	sc := onWire(t, hostile.Spec{})
	from := newAddr()
	mad, _ := sc.start(hostile.RoleMadWireServer, sameUser, wired(hostile.Spec{From: from, Seed: 9}))
	survives(sc, wired(hostile.Spec{Also: netip.AddrPortFrom(from, 7471), ConnectTimeout: 5 * time.Second}))
	_, err := mad.Finish()
	require.NoError(t, err)
	sc.end()
}

// survives starts a client with connections to an honest server and to a hostile one.
// It requires that the client keeps its connections to the honest server, and that
// its memory does not grow.
func survives(sc *scene, s hostile.Spec) {
	sc.t.Helper()
	s.Conns, s.Seed = 4, 3
	client, _ := sc.start(hostile.RoleClient, sameUser, s)
	usage := func() hostile.Usage {
		u, err := hostile.UsageOf(client.PID())
		require.NoError(sc.t, err)
		return u
	}
	before := usage()
	sc.eventually(func() bool { return sc.report(client).Tally.Ends > 12 }, "connections end")
	grown := int64(usage().Peak) - int64(before.Resident)
	sc.t.Logf("the client's memory grew by %.1f MiB at most", float64(grown)/mebi)
	require.Less(sc.t, grown, int64(64*mebi*memoryFactor))
	require.LessOrEqual(sc.t, usage().Descriptors, before.Descriptors+4*8)
	note, err := client.Finish()
	require.NoError(sc.t, err)
	sc.t.Logf("client: %+v", note.Tally)
	require.Zero(sc.t, note.Tally.Lost+note.Tally.Damaged+note.Tally.Failed, "%+v", note.Tally)
	require.Greater(sc.t, note.Tally.Echoes, uint64(100))
}
