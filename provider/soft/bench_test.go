//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// These benchmarks measure parts of the data path. All except BenchmarkPingPong run in
// one goroutine and never block.

func BenchmarkPollNothing(b *testing.B) {
	d := openDevice(b, &Config{})
	a, _ := qptest.NewPair(b, d, verbs.ProgressManual)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = a.CQ.Poll(a.WC)
	}
}

func BenchmarkSendReceive(b *testing.B) {
	d := openDevice(b, &Config{})
	x, y := qptest.NewPair(b, d, verbs.ProgressManual)
	recvs := []verbs.RecvWR{{SGEs: []verbs.SGE{verbs.SGEOf(y.MR, 0, 4096)}}}
	sends := []verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: make([]byte, 64)}}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = y.QP.PostRecv(recvs)
		for n := 0; n == 0; {
			n, _ = x.QP.PostSend(sends)
			_, _ = x.CQ.Poll(x.WC)
		}
		_, _ = y.CQ.Poll(y.WC)
		_, _ = y.CQ.Poll(y.WC)
	}
}

// BenchmarkWriteDirectly posts a WRITE, which the requester executes itself, and polls
// its completion.
func BenchmarkWriteDirectly(b *testing.B) {
	x, y := qptest.NewPair(b, openDevice(b, &Config{Path: PathLocal}), verbs.ProgressManual)
	x.Share(y)
	writes := []verbs.SendWR{x.Remote(verbs.OpWrite, y, 64)}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = x.QP.PostSend(writes)
		_, _ = x.CQ.Poll(x.WC)
	}
}

// BenchmarkRing publishes one slot in a ring, reads it and releases it.
func BenchmarkRing(b *testing.B) {
	mine, peer := newEnds(b)
	_, ring := mine.Segment.Carve(mine.Side)
	out := shm.NewProducer(ring)
	_, ring = peer.Segment.Carve(mine.Side)
	in := shm.Consumer{Ring: ring}
	message := make([]byte, 64)
	f := shm.Slot{Fragment: fragment.Fragment{Op: fragment.Send, Flags: fragment.First | fragment.Last, Length: 64}}
	var r shm.Slot
	b.ReportAllocs()
	for b.Loop() {
		dst, _, _ := out.Reserve(64)
		copy(dst, message)
		out.Put(&f)
		out.PublishFirst()
		in.Peek(&r)
		copy(message, r.Payload)
		in.Advance(&r)
		out.Free(in.Head)
	}
}

// newEnds returns both ends of shared memory with the default sizes.
func newEnds(b *testing.B) (mine, peer *shm.End) {
	cfg, err := (&Config{}).withDefaults()
	require.NoError(b, err)
	mine, peer, err = shm.NewEnds(cfg.geometry(), newMaps(), 0, nil).UsePair(0, 1)
	require.NoError(b, err)
	b.Cleanup(mine.Release)
	b.Cleanup(peer.Release)
	return mine, peer
}

// BenchmarkDoorbell rings a doorbell and reads the byte from its socket. No wake-up is
// measured.
func BenchmarkDoorbell(b *testing.B) {
	mine, peer := newEnds(b)
	var buf [64]byte
	b.ReportAllocs()
	for b.Loop() {
		shm.RingDoorbell(mine.Doorbell)
		shm.DrainDoorbell(peer.Doorbell, buf[:])
	}
}

func BenchmarkPingPong(b *testing.B) {
	d := openDevice(b, &Config{})
	x, y := qptest.NewPair(b, d, verbs.ProgressManual)
	newExchange := func(e *qptest.End) (exchange func()) {
		recvs := []verbs.RecvWR{{SGEs: []verbs.SGE{verbs.SGEOf(e.MR, 0, 4096)}}}
		sends := []verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: make([]byte, 64)}}
		for range 64 {
			_, _ = e.QP.PostRecv(recvs)
		}
		return func() {
			for n := 0; n == 0; {
				n, _ = e.CQ.Poll(e.WC)
			}
			_, _ = e.QP.PostSend(sends)
			_, _ = e.QP.PostRecv(recvs)
		}
	}
	exchangeX, exchangeY := newExchange(x), newExchange(y)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range b.N {
			exchangeY()
		}
	}()
	_, _ = x.QP.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: make([]byte, 64)}})
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		exchangeX()
	}
	b.StopTimer()
	<-done
}
