//go:build linux

package shmpath

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestSendOfEverySize(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	for _, size := range []int{0, 1, 95, 96, 97, 4096, 16 << 10, 16<<10 + 1, 256 << 10, 1 << 20} {
		for i := range size {
			a.MR.Bytes()[i] = byte(i*7 + size)
		}
		b.Recv(uint64(size), 0, qptest.EndSize)
		a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, size)}})
		got := b.Wait(1, a)[0]
		require.Equal(t, verbs.StatusSuccess, got.Status)
		require.EqualValues(t, size, got.ByteLen)
		require.True(t, bytes.Equal(a.MR.Bytes()[:size], b.MR.Bytes()[:size]))
		require.Equal(t, verbs.StatusSuccess, a.Wait(1, b)[0].Status)
	}
}

func TestReadWriteAtomic(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	copy(b.MR.Bytes()[100:], "remote text")
	a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 1<<20)}, RemoteAddr: b.MR.Addr() + 100, RKey: b.MR.RKey()})
	wc := a.Wait(1, b)[0]
	require.Equal(t, verbs.StatusSuccess, wc.Status)
	require.Equal(t, "remote text", string(a.MR.Bytes()[:11]))

	b.MR.Bytes()[8] = 40
	a.Post(verbs.SendWR{ID: 2, Opcode: verbs.OpFetchAdd, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 64, 8)}, RemoteAddr: b.MR.Addr() + 8, RKey: b.MR.RKey(), CompareAdd: 2})
	require.Equal(t, verbs.StatusSuccess, a.Wait(1, b)[0].Status)
	require.EqualValues(t, 42, b.MR.Bytes()[8])
}

// If the ring has no room for a whole response, the rest of the response waits. Later
// requests of the peer are executed meanwhile.
func TestReadResponseWaitsForRoom(t *testing.T) {
	const size = 64 << 10
	a, b := newLocalPair(t, memoryConfig{bytes: 16 << 10})
	for i := range size {
		b.MR.Bytes()[i] = byte(i * 7)
	}
	a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.SendSignaled,
		SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, size)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()})
	a.Post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	b.Recv(3, 0, 0)
	require.EqualValues(t, 3, b.Wait(1)[0].ID)
	require.Len(t, connOf(b).responses, 1)
	got := a.Wait(2, b)
	require.Equal(t, []uint64{1, 2}, []uint64{got[0].ID, got[1].ID})
	require.Empty(t, connOf(b).responses)
	require.True(t, bytes.Equal(a.MR.Bytes()[:size], b.MR.Bytes()[:size]))
}

// When the ring is full, the sender reads the peer's acknowledgement to free consumed
// slots. Then takeAcks completes their requests. An acknowledgement of slots that were
// never sent moves the queue pair to the error state.
func TestFullRingTakesAcks(t *testing.T) {
	const slots = 8
	a, b := newLocalPair(t, memoryConfig{slots: slots})
	c := connOf(a)
	send := func() bool { return a.QP.SendInline(1, 0, nil) }
	for range slots {
		b.Recv(1, 0, 10)
		require.True(t, send())
	}
	require.False(t, send(), "the ring is full")
	a.QP.Doorbell()
	b.Wait(slots)
	b.PollN(1) // A poll that finds no work sends acknowledgements.
	require.True(t, send())
	c.TakeAcks()
	require.EqualValues(t, slots, c.progress().oldest, "the acknowledged requests have completed")

	connOf(b).p.own.Ack.Store(uint64(shm.NewAck(1000, 0)))
	for range slots - 1 {
		require.True(t, send())
	}
	require.False(t, send(), "the peer has acknowledged slots that were not published")
	require.Equal(t, verbs.StateError, a.QP.State())
}

// A response acknowledges all requests before its READ. So the READ completes, even if
// these requests are unsignaled and the peer has sent no acknowledgement yet.
func TestResponseAcknowledges(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpWrite})
	a.Post(verbs.SendWR{ID: 2, Opcode: verbs.OpRead, Flags: verbs.SendSignaled,
		SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 8)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()})
	b.PollN(1)
	got := a.PollN(1)
	require.Len(t, got, 1)
	require.EqualValues(t, 2, got[0].ID)
	require.False(t, a.QP.Outstanding())
}
