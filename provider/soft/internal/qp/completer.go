//go:build linux

package qp

import (
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// This file has the part of the requester that completes requests.

// Acknowledged processes a new acknowledgement. It covers all packets or fragments whose
// path sequences are below seq.
func (q *QP) Acknowledged(seq uint64) {
	q.rnr.retriesLeft = q.attr.RNRRetry
	q.retire(seq)
}

// RequestsAcknowledged is like acknowledged, for an acknowledgement that may be a
// repeated one. It counts as progress of the peer only if a request completes.
func (q *QP) RequestsAcknowledged(seq uint64) {
	before := q.sq.oldest
	q.retire(seq)
	if q.sq.oldest != before && q.state != verbs.StateError {
		q.rnr.retriesLeft = q.attr.RNRRetry
	}
}

// retire completes requests in order, if their path sequences are below acked. A failed
// request moves the queue pair to the error state.
func (q *QP) retire(acked uint64) {
	for q.sq.outstanding() && q.state != verbs.StateError {
		w := q.sq.at(q.sq.oldest)
		switch {
		case w.Status != verbs.StatusSuccess:
			q.failOldest(w.Status)
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
func (q *QP) completeSend(w *WQE) {
	signaled, response := q.Signaled(w), w.ExpectsResponse()
	if !signaled && !response {
		q.sq.retire()
		return
	}
	q.requester.signaledCount--
	if signaled {
		wc := verbs.WC{ID: w.id, Opcode: sendWCOpcode[w.Op], QPN: q.num}
		if response {
			wc.ByteLen = w.Total
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

// ExpectedResponse returns the oldest READ or atomic without a complete response, or
// nil.
func (q *QP) ExpectedResponse() *WQE {
	r := &q.requester
	if r.reads == 0 {
		return nil
	}
	if int32(r.nextRead-q.sq.oldest) < 0 {
		r.nextRead = q.sq.oldest
	}
	for ; r.nextRead != q.sq.firstNew; r.nextRead++ {
		if w := q.sq.at(r.nextRead); w.ExpectsResponse() && !w.responseComplete {
			return w
		}
	}
	return nil
}

// Response stores data of the response to the oldest READ or atomic. The parameter last
// is true for the last data of this response. If the data is invalid, the method returns
// false.
func (q *QP) Response(op fragment.Op, data []byte, last bool) bool {
	w := q.ExpectedResponse()
	if w == nil || (op == fragment.ReadData) != (w.Op == verbs.OpRead) || uint64(w.Received)+uint64(len(data)) > uint64(w.Total) {
		return false
	}
	if !q.pd.scatter(w.sges, w.Received, data) {
		// The memory region was closed after the request was checked.
		w.Status = verbs.StatusLocProtErr
	}
	w.Received += uint32(len(data))
	if !last {
		return true
	}
	if w.Received != w.Total {
		return false
	}
	w.responseComplete = true
	q.requester.reads--
	q.rnr.retriesLeft = q.attr.RNRRetry
	q.retire(q.path.Acked())
	return true
}

// OnNAK fails the oldest unacknowledged request, for the reason that a NAK has given.
func (q *QP) OnNAK(a Outcome) {
	status := verbs.StatusRemOpErr
	switch a {
	case OutcomeInvalidRequest:
		status = verbs.StatusRemInvReqErr
	case OutcomeAccessError:
		status = verbs.StatusRemAccessErr
	}
	q.failOldest(status)
}

// OnRNR processes an RNR NAK for the oldest unacknowledged request. The parameter code
// says how long to wait before the next attempt; see verbs.RNRDelay. If no retry is
// left, the request fails.
func (q *QP) OnRNR(code uint8) {
	q.Shard.Counts.Inc(counters.RcvdRNRErr)
	if !q.rnr.refused(code) {
		q.failOldest(verbs.StatusRNRRetryExcErr)
	}
}

// OnTimer implements timerheap.Owner for the timers of the queue pair.
func (q *QP) OnTimer(t *timerheap.Timer) {
	switch t {
	case &q.rnr.timer.Timer:
		q.onRNRTimer()
	default:
		q.onPartialTimer()
	}
}

// onRNRTimer repeats the request that the peer has refused with an RNR NAK, and the
// requests after it.
func (q *QP) onRNRTimer() {
	q.rnr.fired()
	if q.path != nil && (q.state == verbs.StateRTS || q.state == verbs.StateSQD) {
		if q.wire != nil {
			q.wire.Resend()
		}
		q.path.Transmit()
	}
}

// OnInvalidResponse fails the oldest request, because the peer has violated the
// protocol.
func (q *QP) OnInvalidResponse() { q.failOldest(verbs.StatusBadRespErr) }

// OnInvalidMemory fails the queue pair after an invalid value in shared memory.
func (q *QP) OnInvalidMemory() {
	q.raise(verbs.AsyncQPFatal)
	q.OnInvalidResponse()
}

// OnRetriesExceeded fails the oldest request, when no retry is left, or the peer has been
// silent for as long as all retries would take, or its process has ended.
func (q *QP) OnRetriesExceeded() { q.failOldest(verbs.StatusRetryExcErr) }

// failOldest completes the oldest outstanding request with an error, and enters the
// error state.
func (q *QP) failOldest(status verbs.Status) {
	if q.sq.outstanding() {
		q.Shard.Counts.Failed(status)
		w := q.sq.at(q.sq.oldest)
		q.sq.complete(q.sendCQ, &verbs.WC{ID: w.id, Status: status, QPN: q.num})
	}
	q.enterError()
}

// makeRoom completes the requests that the peer has executed, if the ring of the send
// queue would have to grow otherwise.
func (q *QP) makeRoom() {
	if q.sq.crowded() && q.IsServing() && q.path != nil {
		q.RequestsAcknowledged(q.path.Acked())
	}
}
