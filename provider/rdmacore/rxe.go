//go:build rdmacore && cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"runtime"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// The functions of this file work around properties of the kernel's software device, rxe.
// The queues of rxe are memory that this process shares with the kernel. rxe does not
// notice by itself that a request was added to a queue in the error state or in SQD.
// Therefore the functions of this file call rxe when it must process such requests.

// rxeVendor is the vendor ID of an rxe device.
const rxeVendor = 0xffffff

// flushLateRecvs makes rxe flush the receive queue of a failed queue pair. rxe by itself
// flushes the queue only when the state changes. Buffers that are posted after that
// change would stay in the queue. The caller holds the guard of the queue.
func (q *qp) flushLateRecvs() {
	if q.pd.dev.rxe && q.lastState() == verbs.StateError && !q.recvs.closed {
		raw := C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_ERR}
		C.ibv_modify_qp(q.c, &raw, C.IBV_QP_STATE)
	}
}

// failed is called for each completion that reports an error. The first such completion
// shows that the device has moved the queue pair to ERROR. Buffers may have been posted
// after that move and before this call, so failed flushes the receive queue.
func (q *qp) failed() {
	if !q.pd.dev.rxe || verbs.QPState(q.last.Swap(uint32(verbs.StateError))) == verbs.StateError {
		return
	}
	q.recvs.enter()
	defer q.recvs.leave()
	q.flushLateRecvs()
}

// drainPolls is how often awaitDrained asks the device whether the send queue is drained.
// It is arbitrary.
const drainPolls = 1000

// awaitDrained waits until the send queue is drained, because rxe refuses the transition
// from SQD to RTS before that. A queue without outstanding requests is drained almost at
// once. If requests still wait for the peer after drainPolls queries, awaitDrained
// returns ErrBusy. The caller of Modify may then wait for AsyncSQDrained.
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

// startSends makes rxe process the requests that were posted in SQD, by ringing the
// doorbell.
func (q *qp) startSends() { C.rl_ring_doorbell(q.handle()) }
