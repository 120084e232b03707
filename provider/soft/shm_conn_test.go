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

// A connection that still has to send a READ's response can not be parked, because the
// peer rings no doorbell for it. Here the call of drive ends before the response.
func TestUnsentReadResponseIsNotParked(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 2})
	a, b := newPair(t, d, verbs.ProgressManual)
	for range receiveBudget - 1 {
		a.post(verbs.SendWR{Opcode: verbs.OpWrite})
	}
	a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.SendSignaled,
		SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	b.pollN(1)
	c := b.qp.path.(*shmConn)
	require.Equal(t, serveRead, c.serving)
	require.False(t, c.requestsIn.Ready())
	require.False(t, c.armDoorbell())
	require.EqualValues(t, 1, a.wait(1, b)[0].ID)
	require.Equal(t, serveNext, c.serving)
	require.True(t, c.armDoorbell())
}

// When the ring is full, the sender processes acknowledgements to make room. The slots
// become free together with their requests.
func TestFullRingTakesAcks(t *testing.T) {
	cfg := localConfig()
	cfg.Vectors, cfg.RingSlots = 2, 8
	a, b := newPair(t, openDevice(t, cfg), verbs.ProgressManual)
	c := a.qp.path.(*shmConn)
	send := func() bool { return a.qp.SendInline(1, 0, nil) }
	for range cfg.RingSlots {
		b.recv(1, 0, 10)
		require.True(t, send())
	}
	require.False(t, send(), "the ring is full")
	a.qp.Doorbell()
	b.wait(cfg.RingSlots)
	b.pollN(1) // This poll finds no work, so it sends acknowledgements.
	require.True(t, send())
	require.EqualValues(t, cfg.RingSlots, c.acked())
	require.EqualValues(t, cfg.RingSlots, a.qp.sq.oldest, "the acknowledged requests have completed")

	b.qp.path.(*shmConn).own.Ack.Store(uint64(shm.NewAck(1000, 0, 0)))
	for range cfg.RingSlots - 1 {
		require.True(t, send())
	}
	require.False(t, send(), "the peer has acknowledged slots that were not published")
	require.Equal(t, verbs.StateError, a.qp.State())
}
