//go:build linux

package soft

import (
	"testing"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// What the hot path is made of. The round trip between two goroutines is
// BenchmarkPingPong; the others run on one, and cost instructions only.

func BenchmarkPollNothing(b *testing.B) {
	d := openDevice(b, &Config{Vectors: 2})
	a, _ := newPair(b, d, verbs.ProgressManual)
	for b.Loop() {
		_, _ = a.cq.Poll(a.wc)
	}
}

func BenchmarkSendReceive(b *testing.B) {
	d := openDevice(b, &Config{Vectors: 2})
	x, y := newPair(b, d, verbs.ProgressManual)
	recvs := []verbs.RecvWR{{SGEs: []verbs.SGE{verbs.SGEOf(y.mr, 0, 4096)}}}
	sends := []verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: make([]byte, 64)}}
	for b.Loop() {
		_, _ = y.qp.PostRecv(recvs)
		for n := 0; n == 0; {
			n, _ = x.qp.PostSend(sends)
			_, _ = x.cq.Poll(x.wc)
		}
		_, _ = y.cq.Poll(y.wc)
		_, _ = y.cq.Poll(y.wc)
	}
}

func BenchmarkPingPong(b *testing.B) {
	d := openDevice(b, &Config{Vectors: 2})
	x, y := newPair(b, d, verbs.ProgressManual)
	player := func(e *end) (hit func()) {
		recvs := []verbs.RecvWR{{SGEs: []verbs.SGE{verbs.SGEOf(e.mr, 0, 4096)}}}
		sends := []verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: make([]byte, 64)}}
		for range 64 {
			_, _ = e.qp.PostRecv(recvs)
		}
		return func() {
			for n := 0; n == 0; {
				n, _ = e.cq.Poll(e.wc)
			}
			_, _ = e.qp.PostSend(sends)
			_, _ = e.qp.PostRecv(recvs)
		}
	}
	hitX, hitY := player(x), player(y)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range b.N {
			hitY()
		}
	}()
	_, _ = x.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: make([]byte, 64)}})
	b.ResetTimer()
	for range b.N {
		hitX()
	}
	b.StopTimer()
	<-done
}
