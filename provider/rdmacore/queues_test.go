//go:build cgo && linux

package rdmacore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
	"github.com/rdmaloop/rdmaloop/verbs"
)

var caps = verbs.QPCaps{MaxSendWR: 8, MaxSendSGE: 2, MaxInline: 16}

func sge(addr uint64) verbs.SGE { return verbs.SGE{Addr: addr, Length: 8, LKey: 7} }

// The SGEs of a batch are in one array, and the inline data is in another.
func TestGatherSends(t *testing.T) {
	q := rdmacore.NewSendQueue(verbs.QPTypeRC, caps, 0)
	n, err := q.Gather([]verbs.SendWR{
		{ID: 1, Opcode: verbs.OpWriteImm, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{sge(10), sge(20)}, Imm: 5, RemoteAddr: 6, RKey: 7},
		{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("hello")},
		{ID: 3, Opcode: verbs.OpSend, Flags: verbs.SendInline, SGEs: []verbs.SGE{sge(1)}},
		{ID: 4, Opcode: verbs.OpWrite, Flags: verbs.SendInline | verbs.SendFence, Inline: []byte("world!")},
		{ID: 5, Opcode: verbs.OpCompareSwap, SGEs: []verbs.SGE{sge(30)}, RemoteAddr: 8, RKey: 9, CompareAdd: 10, Swap: 11},
	})
	require.NoError(t, err)
	require.Equal(t, 5, n)
	reqs, sges, inline := q.Batch()
	require.Equal(t, "helloworld!", string(inline))
	require.Equal(t, []verbs.SGE{sge(10), sge(20), {Addr: 0, Length: 5}, {Addr: 5, Length: 6}, sge(30)}, sges)
	want := []map[string]uint64{
		{"opcode": 1, "flags": 2, "sges": 2, "imm": 5, "addr": 6, "rkey": 7},
		{"opcode": 2, "flags": 8, "sges": 1},
		{"opcode": 2, "flags": 8, "sges": 0},
		{"opcode": 0, "flags": 9, "sges": 1},
		{"opcode": 5, "sges": 1, "addr": 8, "rkey": 9, "compare": 10, "swap": 11},
	}
	for i, req := range reqs {
		for field, value := range req.Fields() {
			require.Equal(t, want[i][field], value, "request %d, %s", i, field)
		}
	}
}

// A batch ends before the first invalid request.
func TestGatherRefuses(t *testing.T) {
	good := verbs.SendWR{Opcode: verbs.OpSend}
	for name, c := range map[string]struct {
		kind verbs.QPType
		wr   verbs.SendWR
	}{
		"operation":           {verbs.QPTypeRC, verbs.SendWR{Opcode: 7}},
		"flag":                {verbs.QPTypeRC, verbs.SendWR{Opcode: verbs.OpSend, Flags: 1 << 4}},
		"SGEs":                {verbs.QPTypeRC, verbs.SendWR{Opcode: verbs.OpSend, SGEs: make([]verbs.SGE, 3)}},
		"inline bytes":        {verbs.QPTypeRC, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: make([]byte, 17)}},
		"inline READ":         {verbs.QPTypeRC, verbs.SendWR{Opcode: verbs.OpRead, Flags: verbs.SendInline}},
		"datagram WRITE":      {verbs.QPTypeUD, verbs.SendWR{Opcode: verbs.OpWrite}},
		"datagram to nowhere": {verbs.QPTypeUD, verbs.SendWR{Opcode: verbs.OpSend}},
		"foreign handle":      {verbs.QPTypeUD, verbs.SendWR{Opcode: verbs.OpSend, AH: wrappedAH{}}},
	} {
		t.Run(name, func(t *testing.T) {
			q := rdmacore.NewSendQueue(c.kind, caps, 1024)
			n, err := q.Gather([]verbs.SendWR{c.wr, good})
			require.Error(t, err)
			require.Zero(t, n)
			reqs, _, _ := q.Batch()
			require.Empty(t, reqs)
			if c.kind == verbs.QPTypeRC {
				n, err = q.Gather([]verbs.SendWR{good, c.wr, good})
				require.Error(t, err)
				require.Equal(t, 1, n)
			}
		})
	}
}

type wrappedAH struct{ verbs.AH }

func TestGatherUntilFull(t *testing.T) {
	q := rdmacore.NewSendQueue(verbs.QPTypeRC, caps, 0)
	wrs := make([]verbs.SendWR, 10)
	for i := range wrs {
		wrs[i] = verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend}
	}
	n, err := q.Gather(wrs)
	require.ErrorIs(t, err, verbs.ErrQueueFull)
	require.Equal(t, 8, n)
	reqs, _, _ := q.Batch()
	require.True(t, q.Settle(reqs[4].ID()))
	n, err = q.Gather(wrs[:6])
	require.ErrorIs(t, err, verbs.ErrQueueFull)
	require.Equal(t, 5, n)
}

func TestGatherRecvs(t *testing.T) {
	q := rdmacore.NewRecvQueue(2, 2)
	n, err := q.Gather([]verbs.RecvWR{{ID: 1, SGEs: []verbs.SGE{sge(1), sge(2)}}, {ID: 2}, {ID: 3}})
	require.ErrorIs(t, err, verbs.ErrQueueFull)
	require.Equal(t, 2, n)
	counts, sges := q.Batch()
	require.Equal(t, []uint64{2, 0}, counts)
	require.Equal(t, []verbs.SGE{sge(1), sge(2)}, sges)

	q = rdmacore.NewRecvQueue(2, 2)
	n, err = q.Gather([]verbs.RecvWR{{SGEs: make([]verbs.SGE, 3)}})
	var param *verbs.ParamError
	require.ErrorAs(t, err, &param)
	require.Zero(t, n)
}

// The GRH flag is cleared if no UD queue pair uses the queue.
func TestSettleRecv(t *testing.T) {
	q := rdmacore.NewRecvQueue(1, 1)
	for _, c := range []struct {
		datagrams int32
		want      verbs.WCFlags
	}{{0, verbs.WCWithImm}, {1, verbs.WCWithImm | verbs.WCWithGRH}} {
		q.Datagrams(c.datagrams)
		n, err := q.Gather([]verbs.RecvWR{{ID: 42}})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		wc := verbs.WC{Flags: verbs.WCWithImm | verbs.WCWithGRH}
		require.True(t, q.Settle(0, &wc))
		require.Equal(t, verbs.WC{ID: 42, Flags: c.want}, wc)
		require.False(t, q.Settle(0, &wc))
	}
}

func TestGatherDoesNotAllocate(t *testing.T) {
	q := rdmacore.NewSendQueue(verbs.QPTypeRC, caps, 0)
	wrs := []verbs.SendWR{
		{Opcode: verbs.OpSend, SGEs: []verbs.SGE{sge(1)}},
		{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("hello")},
	}
	turn := func() {
		_, _ = q.Gather(wrs)
		reqs, _, _ := q.Batch()
		q.Settle(reqs[1].ID())
	}
	turn() // The first turn allocates the memory of the batch.
	require.Zero(t, testing.AllocsPerRun(1000, turn))
}
