//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Requests wait until the peer is ready. Before that, connection management binds another
// shm.End to the queue pair. The requests are then sent over the new End.
func TestRequestsMoveToAnotherEnd(t *testing.T) {
	d := openDevice(t, &Config{})
	a, b := qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewEnd(t, d, 1, verbs.ProgressManual)
	a.Connect(b, nil)
	a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 8)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()})
	a.Post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled | verbs.SendFence, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 64, 100)}})
	mine, theirs, err := d.ends.UsePair(a.QP.Shard.Slot, b.QP.Shard.Slot)
	require.NoError(t, err)
	require.NoError(t, cmEngine{d}.Bind(a.QP.Num(), &connmgr.Binding{End: mine}))
	require.NoError(t, cmEngine{d}.Bind(b.QP.Num(), &connmgr.Binding{End: theirs}))
	b.Connect(a, nil)
	b.Recv(9, 0, 100)
	got := a.Wait(2, b)
	require.Equal(t, []uint64{1, 2}, []uint64{got[0].ID, got[1].ID})
	require.EqualValues(t, 100, b.Wait(1, a)[0].ByteLen)
	require.False(t, a.QP.Outstanding())
	b.Recv(10, 0, 100)
	a.Post(verbs.SendWR{ID: 3, Opcode: verbs.OpSend, Flags: verbs.SendSignaled | verbs.SendFence})
	require.EqualValues(t, 3, a.Wait(1, b)[0].ID, "no READ counts as outstanding")
}
