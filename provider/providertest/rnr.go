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
	}
}

// rnrTimer is the RNR timer code of b: 0.64 ms. With shorter delays, software devices
// use up the processor.
const rnrTimer = 12

// rnrPair connects a pair with an RNR retry count for a's sends, as in cm.ConnParam, and
// with rnrTimer on b.
func (r *rig) rnrPair(retries int) *pair {
	r.t.Helper()
	// The count that b passes to Accept applies to a (rdma_accept(3)).
	p := r.pair(func(_, b *plan) { b.param.RNRRetryCount = retries })
	p.b.modify(verbs.AttrMinRNRTimer, verbs.QPAttr{MinRNRTimer: rnrTimer})
	return p
}

// rnrExhausted sends without a receive buffer until the retries are used up. The request
// must fail. The responder must have no completion and must stay in RTS.
func (p *pair) rnrExhausted() {
	p.t.Helper()
	p.a.post(send(1, p.a.sge(0, 8)), send(2, p.a.sge(0, 8)))
	p.a.sends.fail(verbs.StatusRNRRetryExcErr, p.a.qp, 1)
	p.a.sends.fail(verbs.StatusWRFlushErr, p.a.qp, 2)
	p.Equal(verbs.StateError, p.a.qp.State())
	p.Equal(verbs.StateRTS, p.b.qp.State())
}

func rnrZero(r *rig) { r.rnrPair(-1).rnrExhausted() }

// rnrFinite checks that a request does not fail before all its retries have waited for
// the RNR delay.
func rnrFinite(r *rig) {
	for _, retries := range []int{1, 6} {
		p := r.rnrPair(retries)
		start := time.Now()
		p.rnrExhausted()
		r.GreaterOrEqual(time.Since(start), time.Duration(retries)*verbs.RNRDelay(rnrTimer))
	}
}

// rnrForever checks that a request with RNRRetryForever does not fail after seven RNR
// NAKs. While it waits for a receive buffer, three other pairs use up six retries each.
// In that time the request gets more than seven RNR NAKs.
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

// rnrBlocksOrder checks that no request is executed while an earlier request waits for a
// receive buffer.
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
