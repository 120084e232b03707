//go:build rdmacore && cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"runtime"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// The functions of this file make the kernel's software device, rxe, process requests.
// The queues are memory that the process shares with the kernel, and rxe looks at them
// on certain occasions only.

// rxeVendor is the vendor id of rxe.
const rxeVendor = 0xffffff

// flushLateRecvs makes rxe flush the receive queue of a failed queue pair. rxe flushes it
// when the state changes, but not when buffers are posted later. The caller holds the
// guard of the queue.
func (q *qp) flushLateRecvs() {
	if q.pd.dev.rxe && q.lastState() == verbs.StateError && !q.recvs.closed {
		raw := C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_ERR}
		C.ibv_modify_qp(q.c, &raw, C.IBV_QP_STATE)
	}
}

// failed is called for every failed completion. The first failed completion shows that
// the device has moved the queue pair to ERROR. Buffers that were posted since the move
// must be flushed.
func (q *qp) failed() {
	if !q.pd.dev.rxe || verbs.QPState(q.last.Swap(uint32(verbs.StateError))) == verbs.StateError {
		return
	}
	q.recvs.enter()
	defer q.recvs.leave()
	q.flushLateRecvs()
}

// drainPolls is the number of times that awaitDrained checks whether the send queue is
// drained. The number is arbitrary.
const drainPolls = 1000

// awaitDrained waits until the send queue is drained, because rxe refuses the transition
// from SQD to RTS before. An idle queue is drained almost at once. If requests wait for
// the peer, awaitDrained returns ErrBusy, and the caller may wait for AsyncSQDrained.
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

// startSends makes rxe start the requests that were posted in SQD. rxe starts them at the
// next doorbell.
func (q *qp) startSends() { C.rl_ring_doorbell(q.handle()) }
