package providertest

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func flushCases() []testCase {
	return []testCase{
		{"everything outstanding, once and in order", flushOutstanding},
		{"posted after the error", flushLatePosts},
		{"before a connection", flushUnconnected},
		{"one-sided requests", flushOneSided},
		{"disconnect", flushDisconnect},
		{"the peer's queue pair closes", flushPeerClosed},
		{"both disconnect at once", flushBothDisconnect},
		{"completions before the error are kept", flushKeepsCompletions},
	}
}

// flushOutstanding moves a queue pair with outstanding requests to the error state. Each
// request must be flushed with a completion, even an unsignaled one.
func flushOutstanding(r *rig) {
	p := r.pair(nil)
	for i := range 10 {
		p.a.recv(uint64(100+i), p.a.sge(0, 64))
		wr := send(uint64(i), p.a.sge(0, 64))
		if i%2 == 1 {
			wr.Flags = 0
		}
		p.a.post(wr)
	}
	p.a.toState(verbs.StateError)
	p.a.sends.fail(verbs.StatusWRFlushErr, p.a.qp, sequence(0, 10)...)
	p.a.recvs.fail(verbs.StatusWRFlushErr, p.a.qp, sequence(100, 10)...)
	p.a.toState(verbs.StateError)
}

// flushLatePosts posts requests in the error state. All must be accepted and flushed.
func flushLatePosts(r *rig) {
	p := r.pair(nil)
	p.a.toState(verbs.StateError)
	// Each round fills both queues. It can do so only if the flushed requests of the
	// round before have freed their places.
	for range 3 {
		n := p.a.qp.Caps().MaxSendWR
		wrs := p.a.manySends(0, n)
		for i := range wrs {
			wrs[i].Flags = 0
		}
		p.a.post(wrs...)
		p.a.sends.fail(verbs.StatusWRFlushErr, p.a.qp, sequence(0, n)...)

		n = p.a.qp.Caps().MaxRecvWR
		p.a.mustRecv(0, n)
		p.a.recvs.fail(verbs.StatusWRFlushErr, p.a.qp, sequence(0, n)...)
	}
}

func flushUnconnected(r *rig) {
	e := r.bare(verbs.QPTypeRC)
	e.toInit()
	e.recv(1, e.sge(0, 64))
	e.recv(2, e.sge(0, 64))
	e.toState(verbs.StateError)
	e.recv(3, e.sge(0, 64))
	e.recvs.fail(verbs.StatusWRFlushErr, e.qp, 1, 2, 3)
	r.t.Cleanup(r.noCompletionsLeft)
}

// flushOneSided flushes a SEND and the one-sided requests after it. The SEND has not
// completed, because the peer has no receive buffer.
func flushOneSided(r *rig) {
	p := r.pair(nil)
	p.a.post(
		send(1, p.a.sge(0, 8)),
		p.a.remote(verbs.OpWrite, 2, p.b, 0, p.a.sge(0, 8)),
		p.a.remote(verbs.OpRead, 3, p.b, 0, p.a.sge(0, 8)),
		p.a.remote(verbs.OpWrite, 4, p.b, 0, p.a.sge(0, 8)),
	)
	p.a.toState(verbs.StateError)
	p.a.sends.fail(verbs.StatusWRFlushErr, p.a.qp, sequence(1, 4)...)
}

// postFlushed posts receive buffers that will be flushed.
func (e *end) postFlushed() {
	e.r.t.Helper()
	for i := range 4 {
		e.recv(uint64(i), e.sge(0, 64))
	}
}

// flushed checks that the buffers of postFlushed are flushed and the queue pair is in the
// error state.
func (e *end) flushed() {
	e.r.t.Helper()
	e.recvs.fail(verbs.StatusWRFlushErr, e.qp, sequence(0, 4)...)
	e.r.Equal(verbs.StateError, e.qp.State())
}

// flushDisconnect checks that Disconnect flushes the queue pair of its caller at once.
// Source: rdma_disconnect(3).
func flushDisconnect(r *rig) {
	p := r.pair(nil)
	p.a.postFlushed()
	p.b.postFlushed()
	r.NoError(p.a.id.Disconnect(nil))
	p.a.flushed()
	r.await(p.b.id, cm.Disconnected)
	r.NoError(p.b.id.Disconnect(nil))
	p.b.flushed()
	r.await(p.a.id, cm.Disconnected)
}

// flushPeerClosed closes end b without Disconnect. End a must get Disconnected.
func flushPeerClosed(r *rig) {
	p := r.pair(nil)
	p.a.postFlushed()
	r.NoError(p.b.closeQP())
	r.NoError(p.b.id.Close())
	r.await(p.a.id, cm.Disconnected)
	r.NoError(p.a.id.Disconnect(nil))
	p.a.flushed()
}

func flushBothDisconnect(r *rig) {
	p := r.pair(nil)
	p.a.postFlushed()
	p.b.postFlushed()
	r.NoError(p.a.id.Disconnect(nil))
	r.NoError(p.b.id.Disconnect(nil))
	p.a.flushed()
	p.b.flushed()
	r.await(p.a.id, cm.Disconnected)
	r.await(p.b.id, cm.Disconnected)
}

// flushKeepsCompletions moves a queue pair to the error state. Earlier completions must
// come before the flushed requests.
func flushKeepsCompletions(r *rig) {
	p := r.pair(nil)
	p.b.mustRecv(0, 6)
	p.a.post(p.a.manySends(0, 3)...)
	// These messages have arrived, but end b's CQ may still have their completions.
	p.a.sends.inOrder(0, 1, 2)
	p.b.toState(verbs.StateError)
	p.b.recvs.inOrder(0, 1, 2)
	p.b.recvs.fail(verbs.StatusWRFlushErr, p.b.qp, 3, 4, 5)
}
