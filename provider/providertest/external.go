package providertest

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A stateSteps moves the queue pairs of a connection through their states, with the
// attributes of ID.InitQPAttr. Source: rdma_init_qp_attr(3), rdma_establish(3).
type stateSteps struct {
	// True if the passive side calls Accept before it moves its queue pair to RTR.
	rtrAfterAccept bool
	// Function that is called before each step. It may change the attributes. Nil means
	// no function.
	beforeStep func(e *end, attr *verbs.QPAttr)
	afterStep  func(e *end) // called after each step; may be nil
}

// step moves an end's queue pair to a state.
func (w *stateSteps) step(e *end, state verbs.QPState) {
	e.r.t.Helper()
	attr, mask, err := e.id.InitQPAttr(state)
	e.r.NoError(err, "attributes for %v", state)
	e.r.Equal(state, attr.State)
	e.r.NotZero(mask & verbs.AttrState)
	if w.beforeStep != nil {
		w.beforeStep(e, &attr)
	}
	e.r.NoError(e.qp.Modify(&attr, mask))
	e.r.Equal(state, e.qp.State())
	if w.afterStep != nil {
		w.afterStep(e)
	}
}

// ready moves an end's queue pair from INIT to RTS.
func (w *stateSteps) ready(e *end) {
	e.r.t.Helper()
	w.step(e, verbs.StateRTR)
	w.step(e, verbs.StateRTS)
}

// connectExternal connects a pair whose queue pairs have no IDs. The test moves them
// through their states.
func (r *rig) connectExternal(w *stateSteps) *pair {
	r.t.Helper()
	a, b := r.plans()
	listener := r.listen(cm.TCP)
	p := &pair{rig: r, a: r.newEnd(&a), b: r.newEnd(&b)}
	p.a.id = r.resolve(cm.TCP, listener.LocalAddr())
	p.a.createExternal(&a)
	w.step(p.a, verbs.StateInit)
	r.NoError(p.a.id.Connect(&a.param))

	p.b.id = r.await(listener, cm.ConnectRequest).id
	r.closing("passive id", p.b.id.Close)
	p.b.createExternal(&b)
	w.step(p.b, verbs.StateInit)
	if !w.rtrAfterAccept {
		w.ready(p.b)
	}
	r.NoError(p.b.id.Accept(&b.param))
	if w.rtrAfterAccept {
		w.ready(p.b)
	}
	r.await(p.a.id, cm.ConnectResponse)
	w.ready(p.a)
	r.NoError(p.a.id.Establish())
	r.await(p.b.id, cm.Established)
	r.NoError(listener.Close())
	r.t.Cleanup(r.noCompletionsLeft)
	return p
}

// createExternal creates a queue pair without an ID, and puts its number into the
// connection parameters.
func (e *end) createExternal(pl *plan) {
	e.r.t.Helper()
	e.createBare(pl, verbs.QPTypeRC)
	pl.param.QPNum = e.qp.Num()
}

// createBare creates a queue pair that belongs to no ID.
func (e *end) createBare(pl *plan, qpType verbs.QPType) {
	e.r.t.Helper()
	qp, err := e.r.pd.CreateQP(e.initAttr(pl, qpType))
	e.r.NoError(err)
	e.r.closing("QP", qp.Close)
	e.qp = qp
}

// bare returns an end whose queue pair belongs to no ID. The queue pair is in RESET.
func (r *rig) bare(qpType verbs.QPType) *end {
	r.t.Helper()
	pl, _ := r.plans()
	e := r.newEnd(&pl)
	e.createBare(&pl, qpType)
	return e
}
