package providertest

import (
	"github.com/rdmaloop/rdmaloop/verbs"
)

func queueCases() []testCase {
	return []testCase{
		{"batches", batches},
		{"a full send queue", fullSendQueue},
		{"a full receive queue", fullRecvQueue},
		{"a batch that does not fit", batchTooLong},
		{"unsignaled requests fill the queue", fullOfUnsignaled},
		{"a send occupies its place until it is polled", sendsNeedPolling},
		{"a receive occupies its place until it is polled", recvsNeedPolling},
		{"a bad request in a batch", badInBatch},
		{"impossible requests", impossibleRequests},
	}
}

// manySends returns n signaled SENDs of 8 bytes. Their ids are consecutive, and the
// parameter first is the lowest id.
func (e *end) manySends(first uint64, n int) []verbs.SendWR {
	wrs := make([]verbs.SendWR, n)
	for i := range wrs {
		wrs[i] = send(first+uint64(i), e.sge(0, 8))
	}
	return wrs
}

// manyRecvs returns n receive requests of 8 bytes. Their ids are consecutive, and the
// parameter first is the lowest id.
func (e *end) manyRecvs(first uint64, n int) []verbs.RecvWR {
	wrs := make([]verbs.RecvWR, n)
	for i := range wrs {
		wrs[i] = verbs.RecvWR{ID: first + uint64(i), SGEs: []verbs.SGE{e.sge(4096+8*i, 8)}}
	}
	return wrs
}

// mustRecv posts n receive requests of 8 bytes; see manyRecvs().
func (e *end) mustRecv(first uint64, n int) {
	e.r.t.Helper()
	got, err := e.qp.PostRecv(e.manyRecvs(first, n))
	e.r.NoError(err)
	e.r.Equal(n, got)
}

// inOrder waits for one successful completion for each of the request IDs, in this order.
func (q *queue) inOrder(ids ...uint64) {
	q.r.t.Helper()
	for i, wc := range q.succeed(len(ids)) {
		q.r.Equal(ids[i], wc.ID)
	}
}

// batches overwrites a slice of requests after it was posted. This must not change the
// requests.
func batches(r *rig) {
	p := r.pair(nil)
	n := 20
	recvs, sends := p.b.manyRecvs(100, n), p.a.manySends(200, n)
	got, err := p.b.qp.PostRecv(recvs)
	r.NoError(err)
	r.Equal(n, got)
	got, err = p.a.qp.PostSend(sends)
	r.NoError(err)
	r.Equal(n, got)
	for i := range n {
		recvs[i].SGEs[0], sends[i].SGEs[0] = verbs.SGE{}, verbs.SGE{}
	}
	clear(recvs)
	clear(sends)
	p.a.sends.inOrder(sequence(200, n)...)
	p.b.recvs.inOrder(sequence(100, n)...)
}

// fullSendQueue fills a send queue. One more request must be refused, until there are
// completions.
func fullSendQueue(r *rig) {
	p := r.pair(func(a, b *plan) { a.caps.MaxSendWR, b.caps.MaxRecvWR = 4, 64 })
	depth := p.a.qp.Caps().MaxSendWR
	r.LessOrEqual(depth, 32, "the queue is not much deeper than the requested 4")
	for round := range 3 {
		p.a.post(p.a.manySends(0, depth)...)
		n, err := p.a.qp.PostSend(p.a.manySends(99, 1))
		r.ErrorIs(err, verbs.ErrQueueFull, "round %d", round)
		r.Zero(n)
		p.b.mustRecv(0, depth+1)
		p.a.sends.inOrder(sequence(0, depth)...)
		p.a.post(p.a.manySends(100, 1)...)
		p.a.sends.inOrder(100)
		p.b.recvs.inOrder(sequence(0, depth+1)...)
	}
}

// sendsNeedPolling checks that a request keeps its place until its completion is polled
// (IBTA vol. 1, 10.8.5.1).
func sendsNeedPolling(r *rig) {
	p := r.pair(func(a, _ *plan) { a.caps.MaxSendWR = 4 })
	depth := p.a.qp.Caps().MaxSendWR
	r.Less(depth, 32, "the queue is not much deeper than the requested 4")
	p.a.sends.paused = true
	p.b.mustRecv(0, depth)
	p.a.post(p.a.manySends(0, depth)...)
	p.b.recvs.inOrder(sequence(0, depth)...)
	p.pong()
	_, err := p.a.qp.PostSend(p.a.manySends(99, 1))
	r.ErrorIs(err, verbs.ErrQueueFull, "all requests have completed, and no completion was polled")
	p.a.sends.paused = false
	p.a.sends.inOrder(sequence(0, depth)...)
	p.ping()
}

// recvsNeedPolling checks that a receive buffer keeps its place until its completion is
// polled.
func recvsNeedPolling(r *rig) {
	p := r.pair(func(_, b *plan) { b.caps.MaxRecvWR = 4 })
	depth := p.b.qp.Caps().MaxRecvWR
	r.Less(depth, 32, "the queue is not much deeper than the requested 4")
	p.b.recvs.paused = true
	p.b.mustRecv(0, depth)
	p.a.post(p.a.manySends(0, depth)...)
	p.a.sends.inOrder(sequence(0, depth)...)
	_, err := p.b.qp.PostRecv(p.b.manyRecvs(99, 1))
	r.ErrorIs(err, verbs.ErrQueueFull, "all requests have completed, and no completion was polled")
	p.b.recvs.paused = false
	p.b.recvs.inOrder(sequence(0, depth)...)
	p.ping()
}

// pong sends a message from end b to end a. When it has arrived, all earlier
// acknowledgements of end b have arrived too.
func (p *pair) pong() {
	p.t.Helper()
	p.a.recv(1, p.a.sge(0, 8))
	p.b.post(send(2, p.b.sge(0, 8)))
	p.b.sends.one()
	p.a.recvs.one()
}

func fullRecvQueue(r *rig) {
	p := r.pair(func(_, b *plan) { b.caps.MaxRecvWR = 4 })
	depth := p.b.qp.Caps().MaxRecvWR
	r.LessOrEqual(depth, 32, "the queue is not much deeper than the requested 4")
	n, err := p.b.qp.PostRecv(p.b.manyRecvs(0, depth+3))
	r.ErrorIs(err, verbs.ErrQueueFull)
	r.Equal(depth, n)
	p.a.post(p.a.manySends(50, 1)...)
	p.a.sends.inOrder(50)
	p.b.recvs.inOrder(0)
	n, err = p.b.qp.PostRecv(p.b.manyRecvs(90, 2))
	r.ErrorIs(err, verbs.ErrQueueFull)
	r.Equal(1, n)
	p.a.post(p.a.manySends(60, depth)...)
	p.a.sends.inOrder(sequence(60, depth)...)
	p.b.recvs.inOrder(append(sequence(1, depth-1), 90)...)
}

// batchTooLong posts more requests than the queue has room for. The call must accept as
// many as possible.
func batchTooLong(r *rig) {
	p := r.pair(func(a, b *plan) { a.caps.MaxSendWR, b.caps.MaxRecvWR = 8, 64 })
	depth := p.a.qp.Caps().MaxSendWR
	r.LessOrEqual(depth, 32, "the queue is not much deeper than the requested 8")
	wrs := p.a.manySends(0, depth+5)
	n, err := p.a.qp.PostSend(wrs)
	r.ErrorIs(err, verbs.ErrQueueFull)
	r.Equal(depth, n)
	p.b.mustRecv(0, depth+5)
	p.a.sends.inOrder(sequence(0, depth)...)
	p.a.post(wrs[depth:]...)
	p.a.sends.inOrder(sequence(uint64(depth), 5)...)
	p.b.recvs.inOrder(sequence(0, depth+5)...)
}

// fullOfUnsignaled fills the queue with unsignaled requests and a signaled one at the
// end. Its completion must free all places.
func fullOfUnsignaled(r *rig) {
	p := r.pair(func(a, b *plan) { a.caps.MaxSendWR, b.caps.MaxRecvWR = 8, 64 })
	depth := p.a.qp.Caps().MaxSendWR
	r.LessOrEqual(depth, 32, "the queue is not much deeper than the requested 8")
	for range 3 {
		wrs := p.a.manySends(0, depth)
		for i := range depth - 1 {
			wrs[i].Flags = 0
		}
		p.a.post(wrs...)
		_, err := p.a.qp.PostSend(p.a.manySends(99, 1))
		r.ErrorIs(err, verbs.ErrQueueFull)
		p.b.mustRecv(0, depth)
		p.a.sends.inOrder(uint64(depth - 1))
		p.b.recvs.inOrder(sequence(0, depth)...)
	}
}

// badInBatch posts a batch with an invalid request. The requests before it must be
// executed, and the others must not.
func badInBatch(r *rig) {
	p := r.pair(nil)
	p.b.mustRecv(0, 5)
	wrs := p.a.manySends(0, 5)
	wrs[2].Opcode = 200
	wrs[3].Opcode = 201
	n, err := p.a.qp.PostSend(wrs)
	r.Error(err)
	r.NotErrorIs(err, verbs.ErrQueueFull)
	r.Equal(2, n)
	p.a.sends.inOrder(0, 1)
	p.b.recvs.inOrder(0, 1)

	recvs := p.b.manyRecvs(10, 3)
	recvs[1].SGEs = make([]verbs.SGE, p.b.qp.Caps().MaxRecvSGE+1)
	n, err = p.b.qp.PostRecv(recvs)
	r.requireParamError(err, "too many SGEs")
	r.Equal(1, n)
	p.a.post(p.a.manySends(10, 4)...)
	p.a.sends.inOrder(sequence(10, 4)...)
	p.b.recvs.inOrder(2, 3, 4, 10)
}

// impossibleRequests posts impossible requests. Each call must fail without harm to the
// connection.
func impossibleRequests(r *rig) {
	p := r.pair(nil)
	tooMany := make([]verbs.SGE, p.a.qp.Caps().MaxSendSGE+1)
	for what, wr := range map[string]verbs.SendWR{
		"unknown operation": {Opcode: 99},
		"too many SGEs":     {Opcode: verbs.OpSend, SGEs: tooMany},
		"inline READ":       {Opcode: verbs.OpRead, Flags: verbs.SendInline, Inline: make([]byte, 8)},
		"inline atomic":     {Opcode: verbs.OpFetchAdd, Flags: verbs.SendInline, Inline: make([]byte, 8)},
	} {
		n, err := p.a.qp.PostSend([]verbs.SendWR{wr})
		r.Error(err, what)
		r.Zero(n, what)
	}
	p.ping()
}
