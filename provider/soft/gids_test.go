//go:build linux

package soft

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// The table is read again only when it lacks a requested address or index. A known
// address keeps its index.
func TestGIDTable(t *testing.T) {
	var inUse []netip.Addr
	table := gidTable{addrs: hostport.New(nil).Addrs, inUse: func() []netip.Addr { return inUse }}
	first, err := table.at(0)
	require.NoError(t, err)

	used := netip.MustParseAddr("127.0.0.99")
	i, err := table.index(used)
	require.NoError(t, err)
	require.Zero(t, i, "an address without an index has index 0")
	inUse = []netip.Addr{used}
	i, err = table.index(used)
	require.NoError(t, err)
	require.Positive(t, i, "the table was refreshed")

	inUse = nil
	again, err := table.index(used)
	require.NoError(t, err)
	require.Equal(t, i, again)
	found, err := table.at(i)
	require.NoError(t, err)
	require.Equal(t, used, found)

	gids, err := table.all()
	require.NoError(t, err)
	require.NotContains(t, gids, verbs.GIDFromAddr(used), "all refreshes the table")
	gids[0] = verbs.GID{}
	same, err := table.at(0)
	require.NoError(t, err)
	require.Equal(t, first, same, "all returns a copy")

	for _, index := range []int{-1, len(gids), 1 << 30} {
		_, err = table.at(index)
		var param *verbs.ParamError
		require.ErrorAs(t, err, &param)
		require.EqualValues(t, index, param.Value)
	}
}
