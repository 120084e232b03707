//go:build cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// qp implements verbs.QP.
type qp struct {
	pd     *pd
	c      *C.struct_ibv_qp
	num    uint32
	kind   verbs.QPType
	caps   verbs.QPCaps
	sendCQ *cq
	recvCQ *cq
	srq    *srq // shared receive queue; nil if the queue pair has its own receive queue
	id     *id  // ID on which the queue pair was created, or nil
	users  userCount
	last   atomic.Uint32 // the last known state; see lastState
	sends  sendQueue
	recvs  recvQueue
	// windows are the memory windows whose last bind was posted to this queue pair. Some of
	// them may no longer be bound.
	windows map[*mw]struct{}

	registered bool // true while the registry has both queues
}

// CreateQP creates a queue pair.
//
// Implements: ibv_create_qp(3).
func (p *pd) CreateQP(attr *verbs.QPInitAttr) (verbs.QP, error) {
	q, err := p.createQP(attr, nil)
	if err != nil {
		return nil, operr.Wrap("create QP", err)
	}
	return q, nil
}

// createQP creates a queue pair. If owner is not nil, the queue pair is created on that
// ID.
func (p *pd) createQP(attr *verbs.QPInitAttr, owner *id) (*qp, error) {
	q := &qp{pd: p, kind: attr.Type, id: owner}
	if err := q.gather(attr); err != nil {
		return nil, err
	}
	caps, err := q.prepareCaps(&attr.Caps)
	if err != nil {
		return nil, err
	}
	if err := addUsers(q.dependencies()); err != nil {
		return nil, err
	}
	init := q.initAttr(attr, caps)
	if err := q.create(init); err != nil {
		removeUsers(q.dependencies())
		return nil, err
	}
	if err := q.start(init); err != nil {
		_ = q.Close()
		return nil, err
	}
	return q, nil
}

// gather checks the type of the queue pair, and finds its CQs and SRQ.
func (q *qp) gather(attr *verbs.QPInitAttr) (err error) {
	d := q.pd.dev
	if attr.Type != verbs.QPTypeRC && (attr.Type != verbs.QPTypeUD || !d.caps.UD) {
		return &verbs.ParamError{Field: "QP type", Value: int64(attr.Type), Reason: "not supported by the device"}
	}
	if q.sendCQ, err = d.ownCQ(attr.SendCQ, "send CQ"); err != nil {
		return err
	}
	if q.recvCQ, err = d.ownCQ(attr.RecvCQ, "receive CQ"); err != nil {
		return err
	}
	if attr.SRQ != nil {
		s, ok := attr.SRQ.(*srq)
		if !ok || s.pd != q.pd {
			return verbs.ErrForeign
		}
		q.srq = s
	}
	return nil
}

// dependencies returns the user counts of objects that must stay open while the queue
// pair is open.
func (q *qp) dependencies() []*userCount {
	list := []*userCount{&q.pd.users, &q.sendCQ.users, &q.recvCQ.users}
	if q.srq != nil {
		list = append(list, &q.srq.users)
	}
	return list
}

// prepareCaps checks and converts the queue sizes. Each queue gets room for at least one
// request with one SGE.
func (q *qp) prepareCaps(caps *verbs.QPCaps) (out C.struct_ibv_qp_cap, err error) {
	limits := q.pd.dev.attr
	for _, size := range []struct {
		field        string
		value, limit int
		// least is the smallest value. It replaces a smaller value of the caller.
		least int
		out   *C.uint32_t
	}{
		{"send WRs", caps.MaxSendWR, limits.MaxQPWR, 1, &out.max_send_wr},
		{"receive WRs", caps.MaxRecvWR, limits.MaxQPWR, 1, &out.max_recv_wr},
		{"send SGEs", caps.MaxSendSGE, limits.MaxSGE, 1, &out.max_send_sge},
		{"receive SGEs", caps.MaxRecvSGE, limits.MaxSGE, 1, &out.max_recv_sge},
		{"inline bytes", caps.MaxInline, limits.MaxInline, 0, &out.max_inline_data},
	} {
		if err := within(size.field, size.value, 0, size.limit); err != nil {
			return out, err
		}
		*size.out = C.uint32_t(max(size.value, size.least))
	}
	if q.srq != nil {
		out.max_recv_wr, out.max_recv_sge = 0, 0
	}
	return out, nil
}

// initAttr returns the attributes for the library. The CQs and the SRQ are open, because
// the caller has called addUsers.
func (q *qp) initAttr(attr *verbs.QPInitAttr, caps C.struct_ibv_qp_cap) *C.struct_ibv_qp_init_attr {
	init := &C.struct_ibv_qp_init_attr{
		send_cq: q.sendCQ.c, recv_cq: q.recvCQ.c, cap: caps, qp_type: uint32(q.kind),
	}
	if q.srq != nil {
		init.srq = q.srq.c
	}
	if attr.SignalAll {
		init.sq_sig_all = 1
	}
	return init
}

func (q *qp) create(init *C.struct_ibv_qp_init_attr) error {
	if q.id != nil {
		return q.id.createQP(q, init)
	}
	c, err := C.ibv_create_qp(q.pd.c, init)
	if c == nil {
		return createError("create QP", err)
	}
	q.c = c
	return nil
}

// start sets the fields that need the C object, and registers the queues.
func (q *qp) start(init *C.struct_ibv_qp_init_attr) error {
	d := q.pd.dev
	q.num = uint32(q.c.qp_num)
	q.caps = verbs.QPCaps{
		MaxSendWR:  int(init.cap.max_send_wr),
		MaxRecvWR:  int(init.cap.max_recv_wr),
		MaxSendSGE: int(init.cap.max_send_sge),
		MaxRecvSGE: int(init.cap.max_recv_sge),
		MaxInline:  int(init.cap.max_inline_data),
	}
	if q.srq != nil {
		q.caps.MaxRecvWR, q.caps.MaxRecvSGE = 0, 0
	}
	q.sends.qp, q.recvs.qp = q, q
	q.sends.share(q.sendCQ)
	q.sends.places = newOrderedPlaces(q.caps.MaxSendWR)
	q.recvs.maxSGE = q.caps.MaxRecvSGE
	q.recvs.share(q.recvCQ)
	q.recvs.places = newPoolPlaces(q.caps.MaxRecvWR)
	d.objects.add(q.address(), q)
	if q.kind == verbs.QPTypeUD {
		q.receiver().datagrams.Add(1)
		if err := q.findMTU(); err != nil {
			return err
		}
	}
	return q.register()
}

// findMTU sets the largest datagram size. A new UD queue pair has no port yet, so findMTU
// takes the largest MTU of all ports.
func (q *qp) findMTU() error {
	d := q.pd.dev
	for num := 1; num <= d.attr.NumPorts; num++ {
		var port C.struct_ibv_port_attr
		if err := d.queryPort(uint8(num), &port); err != nil {
			return err
		}
		q.sends.mtu = max(q.sends.mtu, verbs.MTU(port.active_mtu).Bytes())
	}
	return nil
}

// register gives new tags to both queues. From then on, completions with old tags are
// dropped.
func (q *qp) register() error {
	queues := &q.pd.dev.queues
	var sends, recvs bool
	q.sends.tag, sends = queues.add(&q.sends)
	q.recvs.tag, recvs = queues.add(&q.recvs)
	if sends && recvs {
		q.registered = true
		return nil
	}
	if sends {
		queues.remove(q.sends.tag)
	}
	return &verbs.ParamError{Field: "work queues", Value: maxQueues + 1, Limit: maxQueues}
}

// receiver returns the queue with the receive buffers. It is the SRQ, if there is one.
func (q *qp) receiver() *recvQueue {
	if q.srq != nil {
		return &q.srq.recvs
	}
	return &q.recvs
}

func (q *qp) unregister() {
	if !q.registered {
		return
	}
	q.pd.dev.queues.remove(q.sends.tag)
	q.pd.dev.queues.remove(q.recvs.tag)
	q.registered = false
}

func (q *qp) address() uintptr    { return uintptr(unsafe.Pointer(q.c)) }
func (q *qp) handle() C.uintptr_t { return C.uintptr_t(q.address()) }

func (q *qp) Num() uint32             { return q.num }
func (q *qp) Type() verbs.QPType      { return q.kind }
func (q *qp) PD() verbs.PD            { return q.pd }
func (q *qp) Caps() verbs.QPCaps      { return q.caps }
func (q *qp) setLast(s verbs.QPState) { q.last.Store(uint32(s)) }

// lastState returns the last state that this process knows. The device may have moved
// the queue pair to ERROR since then, but posting is safe in ERROR too.
func (q *qp) lastState() verbs.QPState { return verbs.QPState(q.last.Load()) }

// errOneMode is the reason of the error of SetRecvMode.
var errOneMode = errors.New("ibverbs has no call that changes how a queue pair receives")

// SetRecvMode fails.
func (q *qp) SetRecvMode(verbs.RecvMode) error {
	return operr.Wrap("set receive mode", q.users.whileOpen(func() error {
		return &verbs.FeatureError{Feature: "receive modes", Reason: errOneMode}
	}))
}

// Close destroys the queue pair.
//
// Implements: ibv_destroy_qp(3), rdma_destroy_qp(3).
func (q *qp) Close() error {
	return operr.Wrap("close QP", q.users.close(func() error {
		q.sends.enter()
		defer q.sends.leave()
		q.recvs.enter()
		defer q.recvs.leave()
		address := q.address()
		// The address is removed from the table first, because after destroy() a new
		// queue pair may get the same address.
		q.pd.dev.objects.remove(address)
		q.renewWindows()
		if err := q.destroy(); err != nil {
			q.pd.dev.objects.add(address, q)
			return err
		}
		q.pd.dev.async.dropEvents(q)
		q.unregister()
		if q.kind == verbs.QPTypeUD {
			q.receiver().datagrams.Add(-1)
		}
		q.sends.closed, q.recvs.closed = true, true
		removeUsers(q.dependencies())
		return nil
	}))
}

func (q *qp) destroy() error {
	if q.id != nil {
		q.id.destroyQP()
		return nil
	}
	return verbsError("close QP", int32(C.ibv_destroy_qp(q.c)))
}
