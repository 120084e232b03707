//go:build rdmacore && cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"runtime"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// This file works around properties of the kernel's software device, rxe. rxe shares the
// memory of its queues with this process. In the error state and in SQD, it does not
// notice new requests, so the functions below call it.

// rxeVendor is the vendor ID of an rxe device.
const rxeVendor = 0xffffff

// flushLateRecvs makes rxe flush buffers that were posted after the queue pair failed.
// The caller holds the queue's guard.
func (q *qp) flushLateRecvs() {
	if q.pd.dev.rxe && q.lastState() == verbs.StateError && !q.recvs.closed {
		raw := C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_ERR}
		C.ibv_modify_qp(q.c, &raw, C.IBV_QP_STATE)
	}
}

// failed is called for each failed completion. The first one shows that the queue pair
// is in ERROR. Buffers may have been posted since then, so failed flushes the receive
// queue.
func (q *qp) failed() {
	if !q.pd.dev.rxe || verbs.QPState(q.last.Swap(uint32(verbs.StateError))) == verbs.StateError {
		return
	}
	q.recvs.enter()
	defer q.recvs.leave()
	q.flushLateRecvs()
}

// drainPolls is how often awaitDrained asks the device. Arbitrary.
const drainPolls = 1000

// awaitDrained waits until the send queue is drained, as rxe requires for the transition
// from SQD to RTS. If requests still wait for the peer, it returns ErrBusy, and the
// caller of Modify may wait for AsyncSQDrained.
func (q *qp) awaitDrained() error {
	for range drainPolls {
		var raw C.struct_ibv_qp_attr
		var init C.struct_ibv_qp_init_attr
		if err := verbsError("query QP", int32(C.ibv_query_qp(q.c, &raw, C.IBV_QP_STATE, &init))); err != nil {
			return err
		}
		if raw.sq_draining == 0 {
			return nil
		}
		runtime.Gosched()
	}
	return verbs.ErrBusy
}

// startSends makes rxe process the requests that were posted in SQD.
func (q *qp) startSends() { C.rl_ring_doorbell(q.handle()) }
