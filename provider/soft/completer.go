//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// This file has the part of the requester that completes requests.

// acknowledged processes a new acknowledgement. It covers all packets or fragments whose
// path sequences are below seq.
func (q *qp) acknowledged(seq uint64) {
	q.rnr.retriesLeft = q.attr.RNRRetry
	q.retire(seq)
}

// requestsAcknowledged is like acknowledged, for an acknowledgement that may be a
// repeated one. It counts as progress of the peer only if a request completes.
func (q *qp) requestsAcknowledged(seq uint64) {
	before := q.sq.oldest
	q.retire(seq)
	if q.sq.oldest != before && q.state != verbs.StateError {
		q.rnr.retriesLeft = q.attr.RNRRetry
	}
}

// retire completes requests in order, if their path sequences are below acked. A failed
// request moves the queue pair to the error state.
func (q *qp) retire(acked uint64) {
	for q.sq.outstanding() && q.state != verbs.StateError {
		w := q.sq.at(q.sq.oldest)
		switch {
		case w.status != verbs.StatusSuccess:
			q.failOldest(w.status)
			return
		case !w.done(acked):
			return
		}
		q.completeSend(w)
	}
	if q.state == verbs.StateSQD && !q.drained && !q.sq.outstanding() {
		q.drained = true
		q.engine.async.push(verbs.AsyncEvent{Type: verbs.AsyncSQDrained, QP: q})
	}
}

// completeSend completes the oldest request with success. Only a signaled request has a
// completion.
func (q *qp) completeSend(w *wqe) {
	signaled, response := q.signaled(w), w.expectsResponse()
	if !signaled && !response {
		q.sq.retire()
		return
	}
	q.requester.signaledCount--
	if signaled {
		wc := verbs.WC{ID: w.id, Opcode: sendWCOpcode[w.op], QPN: q.num}
		if response {
			wc.ByteLen = w.total
		}
		q.sq.complete(q.sendCQ, &wc)
		return
	}
	q.sq.retire()
}

// sendWCOpcode has the opcode of the completion for each opcode of a request.
var sendWCOpcode = [...]verbs.WCOpcode{
	verbs.OpWrite:       verbs.WCWrite,
	verbs.OpWriteImm:    verbs.WCWrite,
	verbs.OpSend:        verbs.WCSend,
	verbs.OpSendImm:     verbs.WCSend,
	verbs.OpRead:        verbs.WCRead,
	verbs.OpCompareSwap: verbs.WCCompareSwap,
	verbs.OpFetchAdd:    verbs.WCFetchAdd,
	verbs.OpLocalInv:    verbs.WCLocalInv,
	verbs.OpBindMW:      verbs.WCBindMW,
	verbs.OpSendInv:     verbs.WCSend,
}

// expectedResponse returns the oldest READ or atomic without a complete response, or
// nil.
func (q *qp) expectedResponse() *wqe {
	r := &q.requester
	if r.reads == 0 {
		return nil
	}
	if int32(r.nextRead-q.sq.oldest) < 0 {
		r.nextRead = q.sq.oldest
	}
	for ; r.nextRead != q.sq.firstNew; r.nextRead++ {
		if w := q.sq.at(r.nextRead); w.expectsResponse() && !w.responseComplete {
			return w
		}
	}
	return nil
}

// response stores data of the response to the oldest READ or atomic. The parameter last
// is true for the last data of this response. If the data is invalid, the method returns
// false.
func (q *qp) response(op fragment.Op, data []byte, last bool) bool {
	w := q.expectedResponse()
	if w == nil || (op == fragment.ReadData) != (w.op == verbs.OpRead) || uint64(w.received)+uint64(len(data)) > uint64(w.total) {
		return false
	}
	if !q.pd.scatter(w.sges, w.received, data) {
		// The memory region was closed after the request was checked.
		w.status = verbs.StatusLocProtErr
	}
	w.received += uint32(len(data))
	if !last {
		return true
	}
	if w.received != w.total {
		return false
	}
	w.responseComplete = true
	q.requester.reads--
	q.rnr.retriesLeft = q.attr.RNRRetry
	q.retire(q.path.acked())
	return true
}

// onNAK fails the oldest unacknowledged request, for the reason that a NAK has given.
func (q *qp) onNAK(a outcome) {
	status := verbs.StatusRemOpErr
	switch a {
	case outcomeInvalidRequest:
		status = verbs.StatusRemInvReqErr
	case outcomeAccessError:
		status = verbs.StatusRemAccessErr
	}
	q.failOldest(status)
}

// onRNR processes an RNR NAK for the oldest unacknowledged request. The parameter code
// says how long to wait before the next attempt; see verbs.RNRDelay. If no retry is
// left, the request fails.
func (q *qp) onRNR(code uint8) {
	q.shard.counts.Inc(counters.RcvdRNRErr)
	if !q.rnr.refused(code) {
		q.failOldest(verbs.StatusRNRRetryExcErr)
	}
}

// OnTimer implements timerheap.Owner for the timers of the queue pair.
func (q *qp) OnTimer(t *timerheap.Timer) {
	switch t {
	case &q.rnr.timer.Timer:
		q.onRNRTimer()
	default:
		q.onPartialTimer()
	}
}

// onRNRTimer repeats the request that the peer has refused with an RNR NAK, and the
// requests after it.
func (q *qp) onRNRTimer() {
	q.rnr.fired()
	if q.path != nil && (q.state == verbs.StateRTS || q.state == verbs.StateSQD) {
		if q.wire != nil {
			q.wire.resend()
		}
		q.path.transmit()
	}
}

// onInvalidResponse fails the oldest request, because the peer has violated the
// protocol.
func (q *qp) onInvalidResponse() { q.failOldest(verbs.StatusBadRespErr) }

// onInvalidMemory fails the queue pair after an invalid value in shared memory.
func (q *qp) onInvalidMemory() {
	q.raise(verbs.AsyncQPFatal)
	q.onInvalidResponse()
}

// onRetriesExceeded fails the oldest request, when no retry is left, or the peer has been
// silent for as long as all retries would take, or its process has ended.
func (q *qp) onRetriesExceeded() { q.failOldest(verbs.StatusRetryExcErr) }

// failOldest completes the oldest outstanding request with an error, and enters the
// error state.
func (q *qp) failOldest(status verbs.Status) {
	if q.sq.outstanding() {
		q.shard.counts.Failed(status)
		w := q.sq.at(q.sq.oldest)
		q.sq.complete(q.sendCQ, &verbs.WC{ID: w.id, Status: status, QPN: q.num})
	}
	q.enterError()
}

// makeRoom completes the requests that the peer has executed, if the ring of the send
// queue would have to grow otherwise.
func (q *qp) makeRoom() {
	if q.sq.crowded() && q.isServing() && q.path != nil {
		q.requestsAcknowledged(q.path.acked())
	}
}
