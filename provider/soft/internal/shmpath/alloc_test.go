//go:build linux

package shmpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestHotPathDoesNotAllocate(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := qptest.NewPair(t, d, verbs.ProgressManual)
	recvs := []verbs.RecvWR{{SGEs: []verbs.SGE{verbs.SGEOf(b.MR, 0, 100)}}}
	sends := []verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: make([]byte, 64)}}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_, _ = b.QP.PostRecv(recvs)
		_, _ = a.QP.PostSend(sends)
		for n := 0; n == 0; {
			n, _ = b.CQ.Poll(b.WC)
		}
		for n := 0; n == 0; {
			_, _ = b.CQ.Poll(b.WC)
			n, _ = a.CQ.Poll(a.WC)
		}
	}))
}
