//go:build cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"github.com/rdmaloop/rdmaloop/verbs"
)

// CreateQP creates the queue pair of the ID.
//
// Implements: rdma_create_qp(3).
func (i *id) CreateQP(domain verbs.PD, attr *verbs.QPInitAttr) (verbs.QP, error) {
	p, ok := domain.(*pd)
	if !ok {
		return nil, verbs.ErrForeign
	}
	q, err := p.createQP(attr, i)
	if err != nil {
		return nil, err
	}
	return q, nil
}

// createQP creates the C object of q. librdmacm moves an RC queue pair to INIT, and a UD
// queue pair to RTS.
func (i *id) createQP(q *qp, init *C.struct_ibv_qp_init_attr) error {
	ch := i.lock()
	defer ch.mu.Unlock()
	if err := cmError("create QP", int32(C.rl_create_qp(i.c, q.pd.c, init))); err != nil {
		return err
	}
	q.c, i.qp = i.c.qp, q
	q.setLast(verbs.StateInit)
	if q.kind == verbs.QPTypeUD {
		q.setLast(verbs.StateRTS)
	}
	return nil
}

// destroyQP destroys the C object of the queue pair.
//
// Implements: rdma_destroy_qp(3).
func (i *id) destroyQP() {
	ch := i.lock()
	defer ch.mu.Unlock()
	C.rdma_destroy_qp(i.c)
	i.qp = nil
}

// InitQPAttr returns the attributes that move a queue pair to the given state. A queue
// pair that was created on the ID does not need them.
//
// Implements: rdma_init_qp_attr(3).
func (i *id) InitQPAttr(state verbs.QPState) (verbs.QPAttr, verbs.QPAttrMask, error) {
	ch := i.lock()
	defer ch.mu.Unlock()
	raw, mask := C.struct_ibv_qp_attr{qp_state: uint32(state)}, C.int(0)
	if err := cmError("init QP attributes", int32(C.rl_init_qp_attr(i.c, &raw, &mask))); err != nil {
		return verbs.QPAttr{}, 0, err
	}
	attr, known := fromQPAttr(&raw), verbs.QPAttrMask(mask)&knownAttrs
	if known&verbs.AttrMinRNRTimer != 0 {
		attr.MinRNRTimer = i.minRNRTimer
	}
	return attr, known, nil
}
