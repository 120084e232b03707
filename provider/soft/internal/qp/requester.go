//go:build linux

package qp

import (
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// requester is the sending half of a queue pair. It chooses the request to be sent next,
// and completes requests.
type requester struct {
	reads int // number of outstanding READs and atomics
	// position in the send queue before which all READs and atomics have their responses
	nextRead uint32
	rnr      rnrRetry
	// true after a signaled bind or local invalidation, until TakeLocalWait is called
	localWait bool
}

// forgetSent records that no request is outstanding. The parameter is the position of
// the oldest request in the send queue.
func (r *requester) forgetSent(oldest uint32) {
	r.reads, r.nextRead, r.localWait = 0, oldest, false
}

// validate checks a request before it is queued, and returns its length in bytes.
func (q *QP) validate(wr *verbs.SendWR) (total uint32, err error) {
	if len(wr.SGEs) > q.caps.MaxSendSGE {
		return 0, &verbs.ParamError{Field: "send SGEs", Value: int64(len(wr.SGEs)), Limit: int64(q.caps.MaxSendSGE)}
	}
	var sum uint64
	for i := range wr.SGEs {
		sum += uint64(wr.SGEs[i].Length)
	}
	if wr.Flags&verbs.SendInline != 0 {
		if len(wr.SGEs) > 0 {
			return 0, &verbs.ParamError{Field: "send SGEs", Value: int64(len(wr.SGEs)), Reason: "not allowed with SendInline"}
		}
		if len(wr.Inline) > q.caps.MaxInline {
			return 0, &verbs.ParamError{Field: "inline bytes", Value: int64(len(wr.Inline)), Limit: int64(q.caps.MaxInline)}
		}
		if wr.Opcode == verbs.OpRead || wr.Opcode.Atomic() {
			return 0, &verbs.ParamError{Field: "opcode", Value: int64(wr.Opcode), Reason: "READ and atomics have no inline data"}
		}
		sum = uint64(len(wr.Inline))
	} else if len(wr.Inline) > 0 {
		return 0, &verbs.ParamError{Field: "inline bytes", Value: int64(len(wr.Inline)), Reason: "not allowed without SendInline"}
	}
	if sum > MaxMsgSize {
		return 0, &verbs.ParamError{Field: "message bytes", Value: int64(sum), Limit: MaxMsgSize}
	}
	if wr.Opcode > verbs.OpSendInv {
		return 0, &verbs.ParamError{Field: "opcode", Value: int64(wr.Opcode), Limit: int64(verbs.OpSendInv)}
	}
	if q.typ == verbs.QPTypeUD {
		if err := checkDatagram(wr); err != nil {
			return 0, err
		}
	}
	if wr.Opcode.Local() {
		return 0, q.checkLocalRequest(wr)
	}
	if wr.Opcode.Atomic() && sum != 8 {
		return 0, &verbs.ParamError{Field: "atomic result bytes", Value: int64(sum), Limit: 8, Reason: "atomics have a result of 8 bytes"}
	}
	return uint32(sum), nil
}

// NextToSend first executes the local requests whose turn has come. Then it returns the
// next request to be sent, or nil. It returns the same request until MarkSent is called.
// If a request can not be executed or sent, this may end the queue pair; see FailRequest.
func (q *QP) NextToSend() *WQE {
	w := q.nextRequest()
	for w != nil && w.Op.Local() {
		if !q.executeLocal(w) {
			return nil
		}
		w = q.nextRequest()
	}
	return w
}

// nextRequest returns the request to be sent or executed next, or nil.
func (q *QP) nextRequest() *WQE {
	if q.sq.next == q.sq.tail || q.rnr.waiting {
		return nil
	}
	w := q.sq.at(q.sq.next)
	if !q.NextIsNew() {
		// A request of which a part was sent is continued even in SQD.
		if w.Status != verbs.StatusSuccess {
			return nil
		}
		return w
	}
	if !q.mayStart(w) {
		return nil
	}
	if status := q.checkLocalMemory(w); status != verbs.StatusSuccess {
		q.FailRequest(w, status)
		return nil
	}
	return w
}

// executeLocal executes the bind or local invalidation from nextRequest. The request
// completes after the requests before it. If it fails, executeLocal returns false.
func (q *QP) executeLocal(w *WQE) bool {
	if !q.NextIsNew() {
		// A retransmission has reached this request again. Local requests are not repeated.
		q.sq.next++
		return true
	}
	if w.Op == verbs.OpBindMW && !q.executeBind(w.Key) {
		q.FailRequest(w, verbs.StatusMWBindErr)
		return false
	}
	if w.Op == verbs.OpLocalInv && !q.invalidate(w.Key) {
		q.FailRequest(w, verbs.StatusLocQPOpErr)
		return false
	}
	q.localWait = q.localWait || q.Signaled(w)
	q.Executed(w)
	return true
}

// executeBind executes the bind from nextRequest. The window gets the given key.
func (q *QP) executeBind(key uint32) bool {
	b := q.sq.bindAt(q.sq.next)
	r := *b
	*b = bindRequest{} // The reference to the region is removed for the garbage collector.
	return q.bind(&r, key)
}

// TakeLocalWait reports whether a signaled bind or local invalidation was executed since
// the last call. Such a request completes only after all earlier requests. So the path
// asks the peer to acknowledge the earlier requests.
func (r *requester) TakeLocalWait() bool {
	wait := r.localWait
	if wait {
		r.localWait = false
	}
	return wait
}

// NextIsNew reports whether no part of the next request was ever sent.
func (q *QP) NextIsNew() bool { return q.sq.next == q.sq.firstNew }

// mayStart reports whether a new request may be sent now.
func (q *QP) mayStart(w *WQE) bool {
	switch {
	case q.state != verbs.StateRTS:
		return false
	case w.Flags&verbs.SendFence != 0 && q.reads > 0:
		// A fenced request waits for READs and atomics; see IBV_SEND_FENCE in
		// ibv_post_send(3).
		return false
	}
	return !w.ExpectsResponse() || q.reads < int(q.attr.MaxRdAtomic) || q.attr.MaxRdAtomic == 0
}

// Outstanding reports whether a request was sent, at least in part, and has not
// completed.
func (q *QP) Outstanding() bool { return q.sq.outstanding() }

// OldestRequest returns the oldest outstanding request and its position in the send
// queue. Without an outstanding request, w is nil.
func (q *QP) OldestRequest() (w *WQE, position uint32) {
	if q.sq.outstanding() {
		w = q.sq.at(q.sq.oldest)
	}
	return w, q.sq.oldest
}

// HasUnsent reports whether a part of a queued request has to be sent.
func (q *QP) HasUnsent() bool { return q.sq.next != q.sq.tail }

// Drains reports whether the queue pair is in SQD and waits for outstanding requests.
func (q *QP) Drains() bool { return q.state == verbs.StateSQD && !q.drained }

// AwaitsRNRTimer reports whether the RNR timer runs. Until it fires, no request is sent.
func (q *QP) AwaitsRNRTimer() bool { return q.rnr.waiting }

// FailRequest is called if the next request can not be sent. The request completes with
// an error when the requests before it have completed, and then ends the queue pair. No
// later request is sent.
func (q *QP) FailRequest(w *WQE, status verbs.Status) {
	if q.NextIsNew() {
		q.sq.firstNew++
	}
	w.Status = status
	q.retire(q.path.Acked())
}

// checkLocalMemory checks the memory of a request before it is sent.
func (q *QP) checkLocalMemory(w *WQE) verbs.Status {
	var access verbs.Access
	if w.ExpectsResponse() {
		if q.attr.MaxRdAtomic == 0 {
			// MaxRdAtomic 0 means that the peer executes no READs and no atomics.
			return verbs.StatusLocQPOpErr
		}
		access = verbs.AccessLocalWrite
	}
	for i := range w.sges {
		if w.sges[i].Length == 0 {
			continue
		}
		if m, _ := q.pd.sgeMemory(&w.sges[i], access); m == nil {
			return verbs.StatusLocProtErr
		}
	}
	return verbs.StatusSuccess
}

// MarkBegun records that a fragment of the request from NextToSend was sent.
func (q *QP) MarkBegun(w *WQE) {
	if !q.NextIsNew() {
		return
	}
	q.sq.firstNew++
	if w.ExpectsResponse() {
		q.reads++
	}
}

// MarkNextBegun marks the next request as begun, if none is outstanding. So this request
// gets the error of a connection that fails while it waits to send. Like NextToSend, it
// may end the queue pair.
func (q *QP) MarkNextBegun() {
	if q.Outstanding() {
		return
	}
	if w := q.NextToSend(); w != nil {
		q.MarkBegun(w)
	}
}

// MarkSent records that the request from NextToSend was sent. The parameter seq is the
// sequence of its last fragment.
func (q *QP) MarkSent(w *WQE, seq uint64) {
	q.MarkBegun(w)
	w.LastSeq = seq
	q.sq.next++
}

// Executed is called when the next request was executed without the peer. The request is
// a WRITE, a bind or a local invalidation. It completes after the requests before it. A
// failed request before it may end the queue pair.
func (q *QP) Executed(w *WQE) {
	q.MarkSent(w, 0)
	w.responseComplete = true
	q.retire(q.path.Acked())
}

// Signaled reports whether the request has a completion when it succeeds.
func (q *QP) Signaled(w *WQE) bool { return q.signalAll || w.Flags&verbs.SendSignaled != 0 }

// Rewind makes the oldest unacknowledged request the next one to be sent.
func (q *QP) Rewind() { q.sq.rewind() }

// RewindTo finds the first sent request whose path sequence is seq or later, and makes it
// the next one to be sent. If there is no such request, RewindTo returns false.
func (q *QP) RewindTo(seq uint64) bool { return q.sq.rewindTo(seq) }

// Gather copies bytes of the message. It returns false if the memory is not accessible.
func (q *QP) Gather(dst []byte, w *WQE, offset uint32) bool {
	if w.Flags&verbs.SendInline != 0 {
		copy(dst, w.inline[offset:])
		return true
	}
	return q.pd.gather(dst, w.sges, offset, false)
}

// GatherUncached is like Gather for a request without inline data. If possible, its
// stores to dst bypass the caches of the processor.
func (q *QP) GatherUncached(dst []byte, w *WQE, offset uint32) bool {
	return q.pd.gather(dst, w.sges, offset, true)
}

// Acknowledged processes a new acknowledgement. It covers all packets or fragments whose
// path sequences are below seq. If it reaches a request that has failed, the queue pair
// ends.
func (q *QP) Acknowledged(seq uint64) {
	q.rnr.retriesLeft = q.attr.RNRRetry
	q.retire(seq)
}

// RequestsAcknowledged is like Acknowledged, for an acknowledgement that may be a
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
	if !q.Signaled(w) {
		q.sq.retire()
		return
	}
	wc := verbs.WC{ID: w.id, Opcode: sendWCOpcode[w.Op], QPN: q.num}
	if w.ExpectsResponse() {
		wc.ByteLen = w.Total
	}
	q.sq.complete(q.sendCQ, &wc)
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
// false. A failed request ends the queue pair when the requests before it have completed.
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

// OnNAK fails the oldest unacknowledged request, for the reason that a NAK has given. This
// ends the queue pair.
func (q *QP) OnNAK(o Outcome) {
	status := verbs.StatusRemOpErr
	switch o {
	case OutcomeInvalidRequest:
		status = verbs.StatusRemInvReqErr
	case OutcomeAccessError:
		status = verbs.StatusRemAccessErr
	}
	q.failOldest(status)
}

// OnRNR processes an RNR NAK for the oldest unacknowledged request. The parameter code
// says how long to wait before the next attempt; see verbs.RNRDelay. If no retry is
// left, the request fails, which ends the queue pair.
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
// protocol. This ends the queue pair.
func (q *QP) OnInvalidResponse() { q.failOldest(verbs.StatusBadRespErr) }

// OnInvalidMemory ends the queue pair after an invalid value in shared memory.
func (q *QP) OnInvalidMemory() {
	q.raise(verbs.AsyncQPFatal)
	q.OnInvalidResponse()
}

// OnRetriesExceeded fails the oldest request, when no retry is left, or the peer has been
// silent for as long as all retries would take, or its process has ended. This ends the
// queue pair.
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

// rnrRetry counts the retries after RNR NAKs, and waits before each retry. The fields
// retriesLeft and timer must be set before use.
type rnrRetry struct {
	retriesLeft uint8 // remaining retries; verbs.RNRRetryForever means no limit
	// true after an RNR NAK, until the timer fires
	waiting bool
	timer   Timer
}

// refused is called after an RNR NAK. The parameter code is the timer code of the NAK;
// see verbs.RNRDelay. refused starts the timer with the delay that the code means. It
// returns false if no retry is left (IBTA vol. 1, 9.7.5.2.8).
func (r *rnrRetry) refused(code uint8) bool {
	if r.retriesLeft == 0 {
		return false
	}
	if r.retriesLeft < verbs.RNRRetryForever {
		r.retriesLeft--
	}
	r.waiting = true
	r.timer.Start(verbs.RNRDelay(code))
	return true
}

// fired is called when the timer fires. Requests may then be sent again.
func (r *rnrRetry) fired() { r.waiting = false }
