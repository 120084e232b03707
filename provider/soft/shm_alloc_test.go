//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestHotPathDoesNotAllocate(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
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
