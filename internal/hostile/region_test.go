//go:build linux

package hostile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// TestSparseRegions checks that a client can not use up the addresses of the server with
// regions that have no pages. Its messages arrive all the same.
func TestSparseRegions(t *testing.T) {
	f := newFixture(t, hostile.Spec{MaxLongMessage: hostile.MaxLongMessage})
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
	f := newFixture(t, hostile.Spec{MaxLongMessage: hostile.MaxLongMessage})
	attacker, _ := f.start(hostile.RolePuncher, sameUser, hostile.Spec{Rounds: 30, Seed: 4})
	note, err := attacker.Await()
	require.NoError(t, err)
	t.Logf("%+v", note.Attack)
	require.EqualValues(t, 30, note.Attack.Rounds, "the messages arrive")
	require.Greater(t, note.Attack.Sent, uint64(100), "pages were removed")
	require.Zero(t, note.Attack.Admitted, "a file could be truncated")
	f.waitEchoes(500)
	attacker.Kill()
	f.requireGrowthBelow(64 * mebi)
	f.finish()
}
