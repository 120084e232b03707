package reactor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor/internal/memory"
	"github.com/rdmaloop/rdmaloop/reactor/internal/memorytest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestUseQueue checks that uses leave the queue in the order in which they were added.
func TestUseQueue(t *testing.T) {
	var q useQueue
	uses := make([]regionUse, 5)
	added, ended := 0, 0
	for range 100 {
		for range 3 {
			uses[added%5].underWay++
			q.push(&uses[added%5])
			added++
		}
		for range 2 {
			u := &uses[ended%5]
			before := u.underWay
			q.end(1)
			require.Equal(t, before-1, u.underWay)
			ended++
		}
	}
	require.Len(t, q.ring, 128)
	q.end(added - ended)
	for i := range uses {
		require.Zero(t, uses[i].underWay)
	}
	for _, u := range q.ring {
		require.Nil(t, u)
	}
}

// TestAppendRemote checks the elements for parts of a region that consists of three
// memory regions.
func TestAppendRemote(t *testing.T) {
	const mib = 1 << 20
	dev := &memorytest.Device{}
	pd, err := dev.AllocPD()
	require.NoError(t, err)
	reg, err := memory.Register(&memory.Domain{Dev: dev, PD: pd}, make([]byte, 5*mib/2), verbs.AccessAll, false)
	require.NoError(t, err)
	require.Len(t, reg.Parts, 3)
	for i := range reg.Parts {
		reg.Parts[i].Addr, reg.Parts[i].RKey = uint64(10*mib*(i+1)), uint32(i)
	}
	piece := func(addr uint64, key uint32, n int) RemotePiece { return RemotePiece{Remote{Addr: addr, RKey: key}, n} }
	require.Equal(t, []RemotePiece{piece(10*mib, 0, mib)}, appendRemote(nil, reg, 0, mib))
	require.Equal(t, []RemotePiece{piece(20*mib, 1, 1)}, appendRemote(nil, reg, mib, 1))
	require.Equal(t, []RemotePiece{piece(11*mib-1, 0, 1), piece(20*mib, 1, mib), piece(30*mib, 2, 1)}, appendRemote(nil, reg, mib-1, mib+2))
	require.Empty(t, appendRemote(nil, reg, 5*mib/2, 0))
}
