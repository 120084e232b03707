//go:build linux

package soft

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestSendOfEverySize(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 2})
	a, b := newPair(t, d, verbs.ProgressManual)
	for _, size := range []int{0, 1, 95, 96, 97, 4096, 16 << 10, 16<<10 + 1, 256 << 10, 1 << 20} {
		for i := range size {
			a.mr.Bytes()[i] = byte(i*7 + size)
		}
		b.recv(uint64(size), 0, endSize)
		a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, size)}})
		got := b.wait(1, a)[0]
		require.Equal(t, verbs.StatusSuccess, got.Status)
		require.EqualValues(t, size, got.ByteLen)
		require.True(t, bytes.Equal(a.mr.Bytes()[:size], b.mr.Bytes()[:size]))
		require.Equal(t, verbs.StatusSuccess, a.wait(1, b)[0].Status)
	}
}

func TestReadWriteAtomic(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 2})
	a, b := newPair(t, d, verbs.ProgressManual)
	copy(b.mr.Bytes()[100:], "remote text")
	a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, 1<<20)}, RemoteAddr: b.mr.Addr() + 100, RKey: b.mr.RKey()})
	wc := a.wait(1, b)[0]
	require.Equal(t, verbs.StatusSuccess, wc.Status)
	require.Equal(t, "remote text", string(a.mr.Bytes()[:11]))

	b.mr.Bytes()[8] = 40
	a.post(verbs.SendWR{ID: 2, Opcode: verbs.OpFetchAdd, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 64, 8)}, RemoteAddr: b.mr.Addr() + 8, RKey: b.mr.RKey(), CompareAdd: 2})
	require.Equal(t, verbs.StatusSuccess, a.wait(1, b)[0].Status)
	require.EqualValues(t, 42, b.mr.Bytes()[8])
}
