//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Requests wait until the peer is ready. Before that, connection management binds another
// shm.End to the queue pair. The requests are then sent over the new End.
func TestRequestsMoveToAnotherEnd(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 2})
	a, b := newEnd(t, d, 0, verbs.ProgressManual), newEnd(t, d, 1, verbs.ProgressManual)
	a.connect(b, nil)
	a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	a.post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled | verbs.SendFence, SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 64, 100)}})
	mine, theirs, err := d.ends.UsePair(a.qp.shard.slot, b.qp.shard.slot)
	require.NoError(t, err)
	require.NoError(t, qpEngine{d}.Bind(a.qp.num, &connmgr.Binding{End: mine}))
	require.NoError(t, qpEngine{d}.Bind(b.qp.num, &connmgr.Binding{End: theirs}))
	b.connect(a, nil)
	b.recv(9, 0, 100)
	got := a.wait(2, b)
	require.Equal(t, []uint64{1, 2}, []uint64{got[0].ID, got[1].ID})
	require.EqualValues(t, 100, b.wait(1, a)[0].ByteLen)
	require.Zero(t, a.qp.reads+a.qp.signaledCount)
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 2})
	a, b := newPair(t, d, verbs.ProgressManual)
	recvs := []verbs.RecvWR{{SGEs: []verbs.SGE{verbs.SGEOf(b.mr, 0, 100)}}}
	sends := []verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: make([]byte, 64)}}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_, _ = b.qp.PostRecv(recvs)
		_, _ = a.qp.PostSend(sends)
		for n := 0; n == 0; {
			n, _ = b.cq.Poll(b.wc)
		}
		for n := 0; n == 0; {
			_, _ = b.cq.Poll(b.wc)
			n, _ = a.cq.Poll(a.wc)
		}
	}))
}

func TestInlineAndSGEsExclude(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 2})
	a, _ := newPair(t, d, verbs.ProgressManual)
	_, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("x"), SGEs: []verbs.SGE{{Length: 1}}}})
	require.ErrorAs(t, err, new(*verbs.ParamError))
}
