package providertest

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// replaceQP gives an end's ID a new queue pair. Source: rdma_destroy_qp(3),
// rdma_create_qp(3).
func (e *end) replaceQP(pl *plan) {
	e.r.t.Helper()
	e.r.NoError(e.id.CloseQP())
	e.r.Zero(e.id.QP())
	e.createQP(pl)
}

// replacedQP replaces the queue pairs of both ends before they connect. The messages must
// name the new queue pairs.
func replacedQP(r *rig) {
	a, b := r.plans()
	listener := r.listen(cm.TCP)
	p := &pair{rig: r, a: r.newEnd(&a), b: r.newEnd(&b)}
	p.a.id = r.resolve(cm.TCP, listener.LocalAddr())
	p.a.createQP(&a)
	p.a.replaceQP(&a)
	r.NoError(p.a.id.Connect(&a.param))

	request := r.await(listener, cm.ConnectRequest)
	r.Equal(p.a.qp.Num(), request.param.QPNum, "number of the queue pair in the request")
	p.b.id = request.id
	r.closing("passive id", p.b.id.Close)
	p.b.createQP(&b)
	p.b.replaceQP(&b)
	r.NoError(p.b.id.Accept(&b.param))
	established := r.await(p.a.id, cm.Established)
	r.Equal(p.b.qp.Num(), established.param.QPNum, "number of the queue pair in the reply")
	r.await(p.b.id, cm.Established)
	p.ping()
}

// replacedByExternal closes an ID's queue pair, and connects with a queue pair that has
// no ID.
func replacedByExternal(r *rig) {
	a, b := r.plans()
	listener := r.listen(cm.TCP)
	p := &pair{rig: r, a: r.newEnd(&a), b: r.newEnd(&b)}
	p.a.id = r.resolve(cm.TCP, listener.LocalAddr())
	p.a.createQP(&a)
	r.NoError(p.a.id.CloseQP())

	w := &stateSteps{}
	p.a.createExternal(&a)
	w.step(p.a, verbs.StateInit)
	r.NoError(p.a.id.Connect(&a.param))
	request := r.await(listener, cm.ConnectRequest)
	r.Equal(p.a.qp.Num(), request.param.QPNum, "number of the queue pair in the request")
	p.b.id = request.id
	r.closing("passive id", p.b.id.Close)
	p.b.createQP(&b)
	r.NoError(p.b.id.Accept(&b.param))
	r.await(p.a.id, cm.ConnectResponse)
	w.ready(p.a)
	r.NoError(p.a.id.Establish())
	r.await(p.b.id, cm.Established)
	p.ping()
}

// replacedDatagramQP replaces the queue pairs of both ends during a datagram lookup. The
// answer must name the new queue pair.
func replacedDatagramQP(r *rig) {
	r.requires(lacksUD)
	a, b := r.plans()
	listener := r.listen(cm.UDP)
	from, to := r.newEnd(&a), r.newEnd(&b)
	from.id = r.resolve(cm.UDP, listener.LocalAddr())
	from.createQP(&a)
	from.replaceQP(&a)
	r.NoError(from.id.Connect(&cm.ConnParam{}))
	to.id = r.await(listener, cm.ConnectRequest).id
	r.closing("passive id", to.id.Close)
	to.createQP(&b)
	to.replaceQP(&b)
	r.NoError(to.id.Accept(&cm.ConnParam{}))
	r.Equal(to.qp.Num(), r.await(from.id, cm.Established).ud.QPN)
}
