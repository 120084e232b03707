//go:build linux

package soft

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestSendOfEverySize(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
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
	a, b := newLocalPair(t, memoryConfig{})
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

// If the ring has no room for a whole response, the rest of the response waits. Later
// requests of the peer are executed meanwhile.
func TestReadResponseWaitsForRoom(t *testing.T) {
	const size = 64 << 10
	a, b := newLocalPair(t, memoryConfig{bytes: 16 << 10})
	for i := range size {
		b.mr.Bytes()[i] = byte(i * 7)
	}
	a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.SendSignaled,
		SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	a.post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	b.recv(3, 0, 0)
	require.EqualValues(t, 3, b.wait(1)[0].ID)
	require.Len(t, connOf(b).responses, 1)
	got := a.wait(2, b)
	require.Equal(t, []uint64{1, 2}, []uint64{got[0].ID, got[1].ID})
	require.Empty(t, connOf(b).responses)
	require.True(t, bytes.Equal(a.mr.Bytes()[:size], b.mr.Bytes()[:size]))
}

// When the ring is full, the sender reads the peer's acknowledgement to free consumed
// slots. Then takeAcks completes their requests. An acknowledgement of slots that were
// never sent moves the queue pair to the error state.
func TestFullRingTakesAcks(t *testing.T) {
	const slots = 8
	a, b := newLocalPair(t, memoryConfig{slots: slots})
	c := connOf(a)
	send := func() bool { return a.qp.SendInline(1, 0, nil) }
	for range slots {
		b.recv(1, 0, 10)
		require.True(t, send())
	}
	require.False(t, send(), "the ring is full")
	a.qp.Doorbell()
	b.wait(slots)
	b.pollN(1) // A poll that finds no work sends acknowledgements.
	require.True(t, send())
	c.takeAcks()
	require.EqualValues(t, slots, c.progress().oldest, "the acknowledged requests have completed")

	connOf(b).p.own.Ack.Store(uint64(shm.NewAck(1000, 0)))
	for range slots - 1 {
		require.True(t, send())
	}
	require.False(t, send(), "the peer has acknowledged slots that were not published")
	require.Equal(t, verbs.StateError, a.qp.State())
}

// A response acknowledges all requests before its READ. So the READ completes, even if
// these requests are unsignaled and the peer has sent no acknowledgement yet.
func TestResponseAcknowledges(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpWrite})
	a.post(verbs.SendWR{ID: 2, Opcode: verbs.OpRead, Flags: verbs.SendSignaled,
		SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	b.pollN(1)
	got := a.pollN(1)
	require.Len(t, got, 1)
	require.EqualValues(t, 2, got[0].ID)
	require.False(t, a.qp.outstanding())
}
