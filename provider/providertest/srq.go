package providertest

import (
	"github.com/rdmaloop/rdmaloop/verbs"
)

func srqCases() []testCase {
	return []testCase{
		{"sizes", srqSizes},
		{"shared by two queue pairs", srqShared},
		{"a full queue", srqFull},
		{"limit event", srqLimit},
		{"close order", srqClose},
		{"no receive queue of its own", srqOnly},
		{"a failed queue pair does not flush the buffers", srqSurvives},
		{"an empty queue causes RNR NAKs", srqEmpty},
		{"one queue pair is paused", srqPaused},
	}
}

func (r *rig) newSRQ(pd verbs.PD, attr *verbs.SRQAttr) verbs.SRQ {
	r.t.Helper()
	srq, err := pd.CreateSRQ(attr)
	r.NoError(err)
	r.closing("SRQ", srq.Close)
	return srq
}

// A shared has two pairs. The b ends of both pairs use the same SRQ.
type shared struct {
	*rig
	srq    verbs.SRQ
	recvs  *queue
	mr     verbs.MR // memory of the receive buffers
	p1, p2 *pair
}

const sharedSlot = 64

func (r *rig) shared(maxWR int) *shared {
	r.t.Helper()
	_, b := r.plans()
	s := &shared{rig: r, recvs: r.newQueue(verbs.CQAttr{Depth: 256, Vector: b.vector})}
	s.mr = r.alloc(r.pd, memorySize, verbs.AccessAll)
	s.srq = r.newSRQ(r.pd, &verbs.SRQAttr{MaxWR: maxWR, MaxSGE: 2, CQ: s.recvs.cq})
	onSRQ := func(_, b *plan) { b.srq, b.recvs = s.srq, s.recvs }
	s.p1, s.p2 = r.pair(onSRQ), r.pair(onSRQ)
	return s
}

// post posts n receive buffers to the SRQ. Their ids are consecutive, from the parameter
// first on.
func (s *shared) post(first, n int) (int, error) {
	wrs := make([]verbs.RecvWR, n)
	for i := range wrs {
		wrs[i] = verbs.RecvWR{ID: uint64(first + i), SGEs: []verbs.SGE{verbs.SGEOf(s.mr, (first+i)*sharedSlot, sharedSlot)}}
	}
	return s.srq.PostRecv(wrs)
}

func (s *shared) mustPost(first, n int) {
	s.t.Helper()
	got, err := s.post(first, n)
	s.NoError(err)
	s.Equal(n, got)
}

func srqSizes(r *rig) {
	cq := r.newCQ(verbs.CQAttr{Depth: 8})
	srq := r.newSRQ(r.pd, &verbs.SRQAttr{MaxWR: 5, MaxSGE: 2, CQ: cq})
	r.GreaterOrEqual(srq.Caps().MaxWR, 5)
	r.GreaterOrEqual(srq.Caps().MaxSGE, 2)
	n, err := srq.PostRecv([]verbs.RecvWR{{SGEs: make([]verbs.SGE, srq.Caps().MaxSGE+1)}})
	r.requireParamError(err, "too many SGEs")
	r.Zero(n)
}

// srqShared sends over both connections. Each buffer must be used once, and each
// completion must name its queue pair.
func srqShared(r *rig) {
	s := r.shared(64)
	s.mustPost(0, 20)
	for i := range 10 {
		for k, p := range []*pair{s.p1, s.p2} {
			off := 8 * (2*i + k)
			p.a.setWord(off, uint64(p.b.qp.Num())<<32|uint64(i))
			p.a.post(send(uint64(i), p.a.sge(off, 8)))
		}
	}
	next := map[uint32]uint64{}
	slots := map[uint64]bool{}
	for _, wc := range s.recvs.succeed(20) {
		r.Less(wc.ID, uint64(20))
		r.False(slots[wc.ID], "buffer %d twice", wc.ID)
		slots[wc.ID] = true
		var e end
		e.mr = s.mr
		r.Equal(uint64(wc.QPN)<<32|next[wc.QPN], e.word(int(wc.ID)*sharedSlot))
		next[wc.QPN]++
	}
	r.Equal(map[uint32]uint64{s.p1.b.qp.Num(): 10, s.p2.b.qp.Num(): 10}, next)
	s.p1.a.sends.inOrder(sequence(0, 10)...)
	s.p2.a.sends.inOrder(sequence(0, 10)...)
}

func srqFull(r *rig) {
	s := r.shared(8)
	depth := s.srq.Caps().MaxWR
	r.LessOrEqual(depth, 128, "the queue is not much deeper than the requested 8")
	n, err := s.post(0, depth+2)
	r.ErrorIs(err, verbs.ErrQueueFull)
	r.Equal(depth, n)
	s.p1.a.post(send(1, s.p1.a.sge(0, 8)))
	s.p1.a.sends.one()
	r.Equal(uint64(0), s.recvs.one().ID)
	n, err = s.post(depth, 2)
	r.ErrorIs(err, verbs.ErrQueueFull)
	r.Equal(1, n)
}

// asyncEvent polls the rig until the device has an asynchronous event.
func (r *rig) asyncEvent() verbs.AsyncEvent {
	r.t.Helper()
	var ev verbs.AsyncEvent
	r.until("an asynchronous event", func() bool {
		ready, err := readable(r.dev.AsyncFD(), 0)
		r.NoError(err)
		if !ready {
			return false
		}
		ok, err := r.dev.NextAsync(&ev)
		r.NoError(err)
		return ok
	})
	return ev
}

func (r *rig) noAsync() {
	r.t.Helper()
	ok, err := r.dev.NextAsync(&verbs.AsyncEvent{})
	r.NoError(err)
	r.False(ok, "an asynchronous event")
}

// srqLimit checks AsyncSRQLimit (ibv_modify_srq(3)). It must come once after Arm, when
// the SRQ has fewer buffers than the limit.
func srqLimit(r *rig) {
	s := r.shared(64)
	consume := func(n int) {
		r.t.Helper()
		s.p1.a.post(s.p1.a.manySends(0, n)...)
		s.p1.a.sends.succeed(n)
		s.recvs.succeed(n)
	}
	s.mustPost(0, 10)
	r.NoError(s.srq.Arm(5))
	consume(5)
	r.noAsync()
	consume(1)
	ev := r.asyncEvent()
	r.Equal(verbs.AsyncSRQLimit, ev.Type)
	r.Equal(s.srq, ev.SRQ)
	consume(1)
	r.noAsync()

	s.mustPost(10, 10)
	r.NoError(s.srq.Arm(10))
	r.NoError(s.srq.Arm(0))
	consume(8)
	r.noAsync()
	r.requireParamError(s.srq.Arm(s.srq.Caps().MaxWR+1), "limit")
	r.requireParamError(s.srq.Arm(-1), "limit")
}

func srqClose(r *rig) {
	s := r.shared(8)
	r.ErrorIs(s.srq.Close(), verbs.ErrBusy)
	r.NoError(s.p1.b.closeQP())
	r.ErrorIs(s.srq.Close(), verbs.ErrBusy)
	s.mustPost(0, 4)
	r.NoError(s.p2.b.closeQP())
	r.NoError(s.srq.Close())
}

func srqOnly(r *rig) {
	s := r.shared(8)
	n, err := s.p1.b.qp.PostRecv([]verbs.RecvWR{{ID: 1}})
	r.ErrorIs(err, verbs.ErrNotSupported)
	r.Zero(n)
	r.Zero(s.p1.b.qp.Caps().MaxRecvWR)
	s.mustPost(0, 1)
	s.p1.a.post(send(1, s.p1.a.sge(0, 8)))
	s.p1.a.sends.one()
	s.recvs.one()
}

// srqSurvives checks that a failing queue pair does not flush the SRQ.
func srqSurvives(r *rig) {
	s := r.shared(8)
	s.mustPost(0, 4)
	s.p1.b.toState(verbs.StateError)
	s.p2.a.post(s.p2.a.manySends(0, 4)...)
	s.p2.a.sends.succeed(4)
	for _, wc := range s.recvs.succeed(4) {
		r.Equal(s.p2.b.qp.Num(), wc.QPN)
	}
}

// srqEmpty sends over both connections while the SRQ is empty. Both messages must wait
// for a buffer.
func srqEmpty(r *rig) {
	s := r.shared(8)
	s.p1.a.post(send(1, s.p1.a.sge(0, 8)))
	s.p2.a.post(send(2, s.p2.a.sge(0, 8)))
	r.rnrPair(1).rnrExhausted()
	s.mustPost(0, 2)
	s.p1.a.sends.inOrder(1)
	s.p2.a.sends.inOrder(2)
	s.recvs.succeed(2)
}

// srqPaused pauses one of two queue pairs. Its peer must wait, and take no buffer, while the
// other one goes on.
func srqPaused(r *rig) {
	r.requires(lacksRecvModes)
	s := r.shared(8)
	s.mustPost(0, 4)
	r.NoError(s.p1.b.qp.SetRecvMode(verbs.RecvPaused))
	s.p1.a.post(s.p1.a.manySends(0, 2)...)
	for i := range 2 {
		s.p2.a.post(send(uint64(i), s.p2.a.sge(0, 8)))
		s.p2.a.sends.inOrder(uint64(i))
		r.Equal(s.p2.b.qp.Num(), s.recvs.one().QPN)
	}
	r.Empty(s.p1.a.sends.wcs)
	r.NoError(s.p1.b.qp.SetRecvMode(verbs.RecvBuffers))
	s.p1.a.sends.inOrder(0, 1)
	for _, wc := range s.recvs.succeed(2) {
		r.Equal(s.p1.b.qp.Num(), wc.QPN)
	}
}
