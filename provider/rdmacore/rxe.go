//go:build cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"runtime"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Workarounds for rxe, the kernel's software device:
//
//   - In ERROR and in SQD, rxe does not notice new requests.
//   - rxe reports an invalidated key with another flag than libibverbs.
//   - If windows are bound to a queue pair, rxe does not destroy the queue pair
//     properly; see qp.renewWindows.

// rxeVendor is the vendor ID of an rxe device.
const rxeVendor = 0xffffff

// flushLateRecvs makes rxe flush receive buffers that were posted after the queue pair
// failed. The caller holds the queue's guard.
func (q *qp) flushLateRecvs() {
	if q.pd.dev.rxe && q.lastState() == verbs.StateError && !q.recvs.closed {
		raw := C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_ERR}
		C.ibv_modify_qp(q.c, &raw, C.IBV_QP_STATE)
	}
}

// failed is called for each failed completion. On rxe, the first call flushes receive
// buffers that were posted after the failure.
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

// awaitDrained waits until the send queue is drained. rxe requires that before the
// transition from SQD to RTS. If requests wait for the peer for too long, the error is
// ErrBusy.
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

// rxeWithInv is the flag with which rxe reports an invalidated key: the number of the
// kernel's IB_WC_WITH_INVALIDATE. libibverbs has the same number for IBV_WC_IP_CSUM_OK, a
// flag that rxe never sets.
const rxeWithInv = 1 << 2

// correctFlags corrects the flags of a completion of rxe.
func (r *rawWC) correctFlags() {
	if r.flags&rxeWithInv != 0 {
		r.flags |= C.IBV_WC_WITH_INV
	}
}
