package providertest

import (
	"github.com/rdmaloop/rdmaloop/verbs"
)

func cqCases() []testCase {
	return []testCase{
		{"poll in small steps", pollSteps},
		{"one queue for everything", oneQueue},
		{"resize keeps what is queued", resizeKeeps},
		{"resize that does not fit", resizeTooSmall},
		{"overrun", overrun},
		{"a busy queue does not delay another", busyQueue},
	}
}

// busyQueue keeps one connection busy. Messages on a second connection must still arrive.
func busyQueue(r *rig) {
	busy, quiet := r.pair(nil), r.pair(nil)
	const outstanding, messages, enough = 8, 20, 4000
	busy.b.mustRecv(0, outstanding)
	busy.a.post(busy.a.manySends(0, outstanding)...)
	for range messages {
		quiet.b.mustRecv(0, 1)
		quiet.a.post(quiet.a.manySends(0, 1)...)
		for done := 0; len(quiet.a.sends.wcs) == 0 || len(quiet.b.recvs.wcs) == 0; {
			n := min(len(busy.a.sends.wcs), len(busy.b.recvs.wcs))
			busy.a.sends.succeed(n)
			busy.b.recvs.succeed(n)
			busy.b.mustRecv(0, n)
			busy.a.post(busy.a.manySends(0, n)...)
			done += n
			r.Less(done, enough, "too many messages of the busy connection before a message of the other connection")
			r.turn()
		}
		quiet.a.sends.one()
		quiet.b.recvs.one()
	}
	busy.a.sends.succeed(outstanding)
	busy.b.recvs.succeed(outstanding)
}

// pollSteps polls with slices of length 0 and 1. Poll must not write beyond the slice or
// lose completions.
func pollSteps(r *rig) {
	p := r.pair(nil)
	p.b.mustRecv(0, 8)
	p.b.recvs.paused = true
	p.a.post(p.a.manySends(0, 8)...)
	p.a.sends.inOrder(sequence(0, 8)...)

	n, err := p.b.recvs.cq.Poll(nil)
	r.NoError(err)
	r.Zero(n)
	for i := range 8 {
		wcs := [2]verbs.WC{1: {ID: 99}}
		r.until("a completion", func() bool {
			n, err = p.b.recvs.cq.Poll(wcs[:1])
			return n > 0 || err != nil
		})
		r.NoError(err)
		r.Equal(1, n)
		r.Equal(uint64(i), wcs[0].ID)
		r.Equal(verbs.WC{ID: 99}, wcs[1], "Poll writes only to dst")
	}
	p.b.recvs.paused = false
}

// oneQueue uses the same CQ for the send and receive queues of both ends.
func oneQueue(r *rig) {
	shared := r.newQueue(verbs.CQAttr{Depth: 256})
	a, b := r.plans()
	a.recvs, b.recvs = shared, shared
	a.sends, b.sends = shared, shared
	a.vector, b.vector = 0, 0
	p := r.connect(&a, &b)
	p.b.recv(1, p.b.sge(0, 64))
	p.a.recv(2, p.a.sge(0, 64))
	p.a.post(send(3, p.a.sge(0, 64)))
	p.b.post(send(4, p.b.sge(0, 64)))
	qpns := map[uint64]uint32{}
	for _, wc := range shared.succeed(4) {
		qpns[wc.ID] = wc.QPN
	}
	a1, b1 := p.a.qp.Num(), p.b.qp.Num()
	r.Equal(map[uint64]uint32{1: b1, 2: a1, 3: a1, 4: b1}, qpns)
}

func resizeKeeps(r *rig) {
	p := r.pair(nil)
	cq := p.b.recvs.cq
	if !r.dev.Caps().ResizeCQ {
		r.ErrorIs(cq.Resize(512), verbs.ErrNotSupported)
		return
	}
	p.b.mustRecv(0, 10)
	p.b.recvs.paused = true
	p.a.post(p.a.manySends(0, 10)...)
	p.a.sends.inOrder(sequence(0, 10)...)
	r.NoError(cq.Resize(512))
	r.GreaterOrEqual(cq.Depth(), 512)
	r.NoError(cq.Resize(64))
	r.GreaterOrEqual(cq.Depth(), 64)
	p.b.recvs.paused = false
	p.b.recvs.inOrder(sequence(0, 10)...)
	p.ping()
}

func resizeTooSmall(r *rig) {
	p := r.pair(nil)
	cq := p.b.recvs.cq
	if !r.dev.Caps().ResizeCQ {
		r.t.Skip("the device does not have the capability: resizing a CQ")
	}
	depth := cq.Depth()
	r.requireParamError(cq.Resize(0), "nothing")
	r.requireParamError(cq.Resize(r.attr.MaxCQE+1), "too deep")
	p.b.mustRecv(0, 10)
	p.b.recvs.paused = true
	p.a.post(p.a.manySends(0, 10)...)
	p.a.sends.inOrder(sequence(0, 10)...)
	r.Error(cq.Resize(5), "ten are queued")
	r.Equal(depth, cq.Depth())
	p.b.recvs.paused = false
	p.b.recvs.inOrder(sequence(0, 10)...)
}

// overrun adds a completion to a full CQ. Only this CQ must fail, with ErrOverrun.
func overrun(r *rig) {
	bystander := r.pair(nil)
	p := r.pair(func(_, b *plan) {
		b.recvs = r.newQueue(verbs.CQAttr{Depth: 4, Vector: b.vector})
		b.caps.MaxRecvWR = min(256, r.attr.MaxQPWR)
	})
	broken := p.b.recvs
	broken.paused = true
	messages := broken.cq.Depth() + 1
	r.LessOrEqual(messages, p.b.qp.Caps().MaxRecvWR, "the receive queue is long enough to overrun the CQ")
	p.b.mustRecv(0, messages)
	for id := range uint64(messages - 1) {
		p.a.post(p.a.manySends(id, 1)...)
		p.a.sends.inOrder(id)
	}
	// This request may succeed or fail, depending on the device.
	p.a.sends.paused = true
	p.a.post(p.a.manySends(99, 1)...)
	var err error
	r.until("the overrun", func() bool {
		// This poll takes nothing, so the CQ stays full.
		_, err = broken.cq.Poll(nil)
		return err != nil
	})
	r.ErrorIs(err, verbs.ErrOverrun)
	_, err = broken.cq.Poll(make([]verbs.WC, 16))
	r.ErrorIs(err, verbs.ErrOverrun, "the error is permanent")
	bystander.ping()
}
