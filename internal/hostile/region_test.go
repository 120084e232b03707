//go:build linux

package hostile_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// TestSparseRegions checks that a client can not use up the addresses of the server with
// regions that have no pages. Its messages arrive all the same.
func TestSparseRegions(t *testing.T) {
	f := newLongFixture(t, hostile.Spec{})
	attacker, _ := f.start(hostile.RoleSparse, sameUser, hostile.Spec{Rounds: 1})
	note, err := attacker.Await()
	require.NoError(t, err)
	grown, refused := f.usage().Virtual-f.before.Virtual, f.report(f.server).Server.Counters["mapped_bytes_err"]
	t.Logf("%+v; the server's address space grew by %d GiB, and %d regions were not mapped", note.Attack, grown>>30, refused)
	require.Less(t, grown, uint64(2<<40), "the limit is 1 TiB for a process")
	require.NotZero(t, refused)
	_, err = attacker.Finish()
	require.NoError(t, err)
	f.finish()
}

// TestPunchedRegions checks that a client can remove the pages of its regions and of its
// segments while the server reads them. The server reads zeros, and no other client loses
// anything.
func TestPunchedRegions(t *testing.T) {
	f := newLongFixture(t, hostile.Spec{})
	rounds := short(15, 30)
	attacker, _ := f.start(hostile.RolePuncher, sameUser, hostile.Spec{Rounds: rounds, Seed: 4})
	note, err := attacker.Await()
	require.NoError(t, err)
	t.Logf("%+v", note.Attack)
	// The attacker makes holes during each of eight messages in a round.
	require.EqualValues(t, rounds, note.Attack.Rounds, "the messages arrive")
	require.Greater(t, note.Attack.Sent, uint64(rounds*7), "pages were removed")
	require.Zero(t, note.Attack.Admitted, "a file could be truncated")
	f.waitEchoes(500)
	attacker.Kill()
	f.requireGrowthBelow(64 * mebi)
	f.finish()
}

// TestShareFlood checks that a client that asks for regions, and consumes no answers,
// costs the server little memory, and loses its connections.
func TestShareFlood(t *testing.T) {
	f := newFixture(t, hostile.Spec{})
	const conns, slots = 30, 20000
	did := f.attack(hostile.RoleSharer, sameUser, hostile.Spec{Rounds: conns, Messages: slots})
	t.Logf("%+v", did)
	require.EqualValues(t, conns, did.Admitted)
	// The rings have 256 slots, and 256 + 256 answers may wait. The connection ends after
	// that; the bound has room for another ring.
	require.Less(t, did.Sent, uint64(conns*5*256))
	require.EqualValues(t, conns, did.Refused, "the server ends the connections")
	f.requireGrowthBelow(32 * mebi)
	f.finish()
}

// TestInventedLoops checks that a client does not get a segment for each loop that it
// states, and that other clients can connect.
func TestInventedLoops(t *testing.T) {
	// The attacker never confirms, so the time limit would end its first connections while it
	// opens others.
	f := newFixture(t, hostile.Spec{ConnectTimeout: never})
	most := max(256, 2*runtime.NumCPU())
	attacker, _ := f.start(hostile.RoleSharer, sameUser, hostile.Spec{Rounds: 2 * most})
	note, err := attacker.Await()
	require.NoError(t, err)
	t.Logf("%+v; the server has %+v", note.Attack, f.usage())
	require.LessOrEqual(t, note.Attack.Admitted, uint64(most))
	require.GreaterOrEqual(t, f.report(f.server).Server.Counters["peer_shards_err"], uint64(most))
	requireAdmitted(f, hostile.Spec{})
	_, err = attacker.Finish()
	require.NoError(t, err)
	f.requireGrowthBelow(64 * mebi)
	f.finish()
}
