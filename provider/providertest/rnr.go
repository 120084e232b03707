package providertest

import (
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func rnrCases() []testCase {
	return []testCase{
		{"retry 0 fails at once", rnrZero},
		{"a limited number of retries is used up", rnrFinite},
		{"unlimited retries wait for the buffer", rnrForever},
		{"later requests wait too", rnrBlocksOrder},
		{"a paused queue pair", pausedRecv},
	}
}

// rnrTimer is end b's RNR timer code for 0.64 ms. With a much shorter delay, retries
// would keep a software device busy.
const rnrTimer = 12

// rnrPair connects a pair. The parameter retries is the RNR retry count of end a. If it
// is negative, end a does not retry. End b has the RNR timer code rnrTimer.
func (r *rig) rnrPair(retries int) *pair {
	r.t.Helper()
	// This count applies to the other side, end a (rdma_accept(3)).
	p := r.pair(func(_, b *plan) { b.param.RNRRetryCount = retries })
	p.b.modify(verbs.AttrMinRNRTimer, verbs.QPAttr{MinRNRTimer: rnrTimer})
	return p
}

// rnrExhausted sends a message while end b has no receive buffer. When end a has used up
// its RNR retries, its request must fail. End b must stay in RTS.
func (p *pair) rnrExhausted() {
	p.t.Helper()
	p.a.post(send(1, p.a.sge(0, 8)), send(2, p.a.sge(0, 8)))
	p.a.sends.fail(verbs.StatusRNRRetryExcErr, p.a.qp, 1)
	p.a.sends.fail(verbs.StatusWRFlushErr, p.a.qp, 2)
	p.Equal(verbs.StateError, p.a.qp.State())
	p.Equal(verbs.StateRTS, p.b.qp.State())
}

func rnrZero(r *rig) { r.rnrPair(-1).rnrExhausted() }

// rnrFinite checks that a request fails only after the delays of all its RNR retries.
func rnrFinite(r *rig) {
	for _, retries := range []int{1, 6} {
		p := r.rnrPair(retries)
		start := time.Now()
		p.rnrExhausted()
		r.GreaterOrEqual(time.Since(start), time.Duration(retries)*verbs.RNRDelay(rnrTimer))
	}
}

// rnrForever checks that RNRRetryForever lasts longer than every finite retry count.
// Meanwhile three other pairs use up six retries each.
func rnrForever(r *rig) {
	waiting := r.rnrPair(verbs.RNRRetryForever)
	waiting.a.post(send(1, waiting.a.sge(0, 8)))
	for range 3 {
		r.rnrPair(6).rnrExhausted()
	}
	r.Empty(waiting.a.sends.wcs)
	waiting.b.recv(2, waiting.b.sge(0, 8))
	waiting.a.sends.inOrder(1)
	waiting.b.recvs.inOrder(2)
	waiting.ping()
}

// rnrBlocksOrder checks that a request waits while an earlier request has no receive
// buffer.
func rnrBlocksOrder(r *rig) {
	p := r.rnrPair(verbs.RNRRetryForever)
	p.a.setWord(64, 42)
	p.a.post(send(1, p.a.sge(0, 8)), p.a.remote(verbs.OpWrite, 2, p.b, 64, p.a.sge(64, 8)))
	r.rnrPair(1).rnrExhausted()
	r.Zero(p.b.word(64))
	p.b.recv(1, p.b.sge(0, 8))
	p.a.sends.inOrder(1, 2)
	p.b.recvs.inOrder(1)
	r.Equal(uint64(42), p.b.word(64))
}

// pausedRecv checks that a paused queue pair takes no buffer, also if it has an SRQ, until
// the pause ends. It executes a READ that comes before a message, and nothing that comes behind
// it.
func pausedRecv(r *rig) {
	p := r.rnrPair(verbs.RNRRetryForever)
	if !r.dev.Caps().RecvModes {
		r.ErrorIs(p.b.qp.SetRecvMode(verbs.RecvPaused), verbs.ErrNotSupported)
		return
	}
	r.requireParamError(p.b.qp.SetRecvMode(verbs.RecvPaused+1), "an unknown mode")
	p.b.recv(10, p.b.sge(0, 8))
	p.b.recv(11, p.b.sge(8, 8))
	r.NoError(p.b.qp.SetRecvMode(verbs.RecvPaused))
	p.a.setWord(64, 42)
	p.a.post(p.a.remote(verbs.OpRead, 1, p.b, 128, p.a.sge(128, 8)))
	p.a.sends.inOrder(1)
	p.a.post(send(2, p.a.sge(0, 8)), p.a.remote(verbs.OpWrite, 3, p.b, 64, p.a.sge(64, 8)), send(4, p.a.sge(0, 8)))
	r.rnrPair(1).rnrExhausted()
	r.Empty(p.a.sends.wcs)
	r.Empty(p.b.recvs.wcs)
	r.Zero(p.b.word(64))
	r.NoError(p.b.qp.SetRecvMode(verbs.RecvBuffers))
	p.a.sends.inOrder(2, 3, 4)
	p.b.recvs.inOrder(10, 11)
	r.Equal(uint64(42), p.b.word(64))
	p.ping()
}
