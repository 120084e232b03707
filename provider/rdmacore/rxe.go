//go:build rdmacore && cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"runtime"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// What the kernel's software device, rxe, does only when it is pushed. The
// queues are memory that it shares with the process, and it looks at them on
// some occasions only.

// rxeVendor is the vendor id by which rxe is known.
const rxeVendor = 0xffffff

// pushRecvs makes rxe flush the receive queue of a failed queue pair: it does so
// when the state changes, and not for what is posted later. The guard of the
// queue is held.
func (q *qp) pushRecvs() {
	if q.pd.dev.rxe && q.lastState() == verbs.StateError && !q.recvs.closed {
		raw := C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_ERR}
		C.ibv_modify_qp(q.c, &raw, C.IBV_QP_STATE)
	}
}

// failed is told of every failed completion. The first shows that the queue pair
// has gone to ERROR by itself; what was posted since has to be flushed.
func (q *qp) failed() {
	if !q.pd.dev.rxe || verbs.QPState(q.last.Swap(uint32(verbs.StateError))) == verbs.StateError {
		return
	}
	q.recvs.enter()
	defer q.recvs.leave()
	q.pushRecvs()
}

// drainLooks is how often resume looks whether the send queue is drained.
const drainLooks = 1000

// resume prepares for the way back from SQD to RTS, which rxe refuses while the
// send queue is draining. An idle queue is drained in next to no time; where
// requests wait for the peer, the caller gets ErrBusy, and may wait for
// AsyncSQDrained.
func (q *qp) resume() error {
	for range drainLooks {
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

// pushSends makes rxe start what was posted in SQD: it does so at the next
// doorbell.
func (q *qp) pushSends() { C.rl_ring(q.handle()) }
