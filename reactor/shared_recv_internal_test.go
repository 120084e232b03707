package reactor

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestQPTable compares a qpTable with a map, through growing, shrinking and collisions.
func TestQPTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	var table qpTable
	want := map[uint32]*Conn{}
	require.Nil(t, table.get(0))
	table.remove(0)
	for step := range 60_000 {
		// The table grows for a while and then becomes empty, three times.
		qpn := rng.Uint32N(4000) << rng.IntN(3)
		if limit := step % 20_000; rng.IntN(20_000) > limit {
			c := &Conn{info: connInfo{qpNum: qpn}}
			table.put(qpn, c)
			want[qpn] = c
		} else {
			table.remove(qpn)
			delete(want, qpn)
		}
		require.Equal(t, len(want), table.count)
		probe := rng.Uint32N(16_000)
		require.Same(t, want[probe], table.get(probe))
	}
	for qpn := range want {
		require.Same(t, want[qpn], table.get(qpn))
		table.remove(qpn)
		require.Nil(t, table.get(qpn))
	}
	require.Zero(t, table.count)
	require.Len(t, table.entries, minQPEntries)
}
