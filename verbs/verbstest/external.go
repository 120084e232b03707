package verbstest

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A walk brings queue pairs that no id owns through their states, with the
// attributes that the ids negotiate. Source: rdma_init_qp_attr(3),
// rdma_establish(3).
type walk struct {
	late   bool                             // the passive side goes to RTR after Accept, not before
	adjust func(e *end, attr *verbs.QPAttr) // before a step; nil: as negotiated
	visit  func(e *end)                     // after it; nil: nothing
}

// step moves an end to state.
func (w *walk) step(e *end, state verbs.QPState) {
	e.r.t.Helper()
	attr, mask, err := e.id.InitQPAttr(state)
	e.r.NoError(err, "attributes for %v", state)
	e.r.Equal(state, attr.State)
	e.r.NotZero(mask & verbs.AttrState)
	if w.adjust != nil {
		w.adjust(e, &attr)
	}
	e.r.NoError(e.qp.Modify(&attr, mask))
	e.r.Equal(state, e.qp.State())
	if w.visit != nil {
		w.visit(e)
	}
}

// ready brings an end that is in INIT to RTS.
func (w *walk) ready(e *end) {
	e.r.t.Helper()
	w.step(e, verbs.StateRTR)
	w.step(e, verbs.StateRTS)
}

// connectExternal is rig.connect for queue pairs that the test drives.
func (r *rig) connectExternal(w *walk) *pair {
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
	if !w.late {
		w.ready(p.b)
	}
	r.NoError(p.b.id.Accept(&b.param))
	if w.late {
		w.ready(p.b)
	}
	r.await(p.a.id, cm.ConnectResponse)
	w.ready(p.a)
	r.NoError(p.a.id.Establish())
	r.await(p.b.id, cm.Established)
	r.NoError(listener.Close())
	r.t.Cleanup(r.nothingLeft)
	return p
}

// createExternal makes a queue pair beside the end's id, and names it in the
// parameters.
func (e *end) createExternal(pl *plan) {
	e.r.t.Helper()
	e.createBare(pl, verbs.QPTypeRC)
	pl.param.QPNum = e.qp.Num()
}

// createBare makes a queue pair without an id.
func (e *end) createBare(pl *plan, qpType verbs.QPType) {
	e.r.t.Helper()
	qp, err := e.r.pd.CreateQP(e.initAttr(pl, qpType))
	e.r.NoError(err)
	e.r.closing("QP", qp.Close)
	e.qp = qp
}

// bare is an end with a queue pair in RESET that is connected to nothing.
func (r *rig) bare(qpType verbs.QPType) *end {
	r.t.Helper()
	pl, _ := r.plans()
	e := r.newEnd(&pl)
	e.createBare(&pl, qpType)
	return e
}
