//go:build cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// State asks the device for the state. After Close or on failure, it returns the last
// known state.
func (q *qp) State() verbs.QPState {
	attr, err := q.Query()
	if err != nil {
		return q.lastState()
	}
	return attr.State
}

// Query returns the current attributes of the queue pair.
//
// Implements: ibv_query_qp(3).
func (q *qp) Query() (attr verbs.QPAttr, err error) {
	err = q.users.whileOpen(func() error {
		attr, err = q.query(knownAttrs)
		return err
	})
	return attr, operr.Wrap("query QP", err)
}

func (q *qp) query(mask verbs.QPAttrMask) (verbs.QPAttr, error) {
	var raw C.struct_ibv_qp_attr
	var init C.struct_ibv_qp_init_attr
	if err := verbsError("query QP", int32(C.ibv_query_qp(q.c, &raw, C.int(mask), &init))); err != nil {
		return verbs.QPAttr{}, err
	}
	return fromQPAttr(&raw), nil
}

// Modify changes attributes of the queue pair.
//
// Implements: ibv_modify_qp(3).
func (q *qp) Modify(attr *verbs.QPAttr, mask verbs.QPAttrMask) error {
	return operr.Wrap("modify QP", q.users.whileOpen(func() error {
		now, err := q.query(verbs.AttrState)
		if err != nil {
			return err
		}
		if err := q.checkModify(now.State, attr, mask); err != nil {
			return err
		}
		return q.move(now.State, attr, mask)
	}))
}

func (q *qp) checkModify(from verbs.QPState, attr *verbs.QPAttr, mask verbs.QPAttrMask) error {
	if err := verbs.CheckTransition(q.kind, from, attr, mask); err != nil {
		return err
	}
	d := q.pd.dev
	if mask&verbs.AttrPort != 0 {
		if err := d.checkPort(attr.Port); err != nil {
			return err
		}
	}
	if mask&verbs.AttrAV != 0 {
		return d.checkAH(&attr.AH)
	}
	return nil
}

// move changes attributes that are already checked. On rxe, the transition from SQD to
// RTS needs two more steps.
func (q *qp) move(from verbs.QPState, attr *verbs.QPAttr, mask verbs.QPAttrMask) error {
	sqdToRTS := q.pd.dev.rxe && from == verbs.StateSQD && mask&verbs.AttrState != 0 && attr.State == verbs.StateRTS
	if sqdToRTS {
		if err := q.awaitDrained(); err != nil {
			return err
		}
	}
	if err := q.modify(attr, mask); err != nil {
		return err
	}
	if sqdToRTS {
		q.startSends()
	}
	return nil
}

// modify changes attributes that are already checked, and records the new state.
func (q *qp) modify(attr *verbs.QPAttr, mask verbs.QPAttrMask) error {
	raw, bits := toQPAttr(attr), C.int(mask)
	if mask&verbs.AttrState != 0 && attr.State == verbs.StateInit {
		bits |= C.IBV_QP_PKEY_INDEX // RoCE has only one partition key, which has the index 0.
	}
	if err := verbsError("modify QP", int32(C.ibv_modify_qp(q.c, &raw, bits))); err != nil {
		return err
	}
	if mask&verbs.AttrState != 0 {
		return q.moved(attr.State)
	}
	return nil
}

// moved records a new state. A queue pair in RESET has lost its requests, so all places
// become free. The queues also get new tags, so that old completions are dropped.
func (q *qp) moved(to verbs.QPState) error {
	q.setLast(to)
	if to != verbs.StateReset {
		return nil
	}
	q.sends.enter()
	defer q.sends.leave()
	q.recvs.enter()
	defer q.recvs.leave()
	q.sends.places.reset()
	q.recvs.places.reset()
	q.unregister()
	return q.register()
}

// setRNRTimer replaces the RNR timer code that librdmacm has set. The queue pair must be
// in RTR or RTS (ibv_modify_qp(3)). Errors are ignored.
func (q *qp) setRNRTimer(code uint8) {
	if q.kind == verbs.QPTypeRC {
		raw := C.struct_ibv_qp_attr{min_rnr_timer: C.uint8_t(code)}
		C.ibv_modify_qp(q.c, &raw, C.IBV_QP_MIN_RNR_TIMER)
	}
}

func toQPAttr(a *verbs.QPAttr) C.struct_ibv_qp_attr {
	return C.struct_ibv_qp_attr{
		qp_state:           uint32(a.State),
		path_mtu:           uint32(a.PathMTU),
		qkey:               C.uint32_t(a.QKey),
		rq_psn:             C.uint32_t(a.RQPSN),
		sq_psn:             C.uint32_t(a.SQPSN),
		dest_qp_num:        C.uint32_t(a.DestQPN),
		qp_access_flags:    C.uint(a.Access),
		ah_attr:            toAHAttr(&a.AH),
		max_rd_atomic:      C.uint8_t(a.MaxRdAtomic),
		max_dest_rd_atomic: C.uint8_t(a.MaxDestRdAtomic),
		min_rnr_timer:      C.uint8_t(a.MinRNRTimer),
		port_num:           C.uint8_t(a.Port),
		timeout:            C.uint8_t(a.Timeout),
		retry_cnt:          C.uint8_t(a.RetryCount),
		rnr_retry:          C.uint8_t(a.RNRRetry),
	}
}

func fromQPAttr(raw *C.struct_ibv_qp_attr) verbs.QPAttr {
	return verbs.QPAttr{
		State:           verbs.QPState(raw.qp_state),
		Access:          verbs.Access(raw.qp_access_flags),
		Port:            uint8(raw.port_num),
		QKey:            uint32(raw.qkey),
		AH:              fromAHAttr(&raw.ah_attr),
		PathMTU:         verbs.MTU(raw.path_mtu),
		DestQPN:         uint32(raw.dest_qp_num),
		RQPSN:           uint32(raw.rq_psn),
		SQPSN:           uint32(raw.sq_psn),
		MaxDestRdAtomic: uint8(raw.max_dest_rd_atomic),
		MaxRdAtomic:     uint8(raw.max_rd_atomic),
		MinRNRTimer:     uint8(raw.min_rnr_timer),
		Timeout:         uint8(raw.timeout),
		RetryCount:      uint8(raw.retry_cnt),
		RNRRetry:        uint8(raw.rnr_retry),
	}
}
