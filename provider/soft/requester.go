//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/verbs"
)

// requester is the sending half of a queue pair. It chooses the request to be sent next,
// and completes requests.
type requester struct {
	reads int // number of outstanding READs and atomics
	// position in the send queue before which all READs and atomics have their responses
	nextRead uint32
	rnr      rnrRetry
	// number of outstanding requests that are signaled or are READs or atomics
	signaledCount int
	// true after a signaled bind or local invalidation, until takeLocalWait is called
	localWait bool
}

// forgetSent records that no request is outstanding. The parameter is the position of
// the oldest request in the send queue.
func (r *requester) forgetSent(oldest uint32) {
	r.reads, r.signaledCount, r.nextRead, r.localWait = 0, 0, oldest, false
}

// validate checks a request before it is queued, and returns its length in bytes.
func (q *qp) validate(wr *verbs.SendWR) (total uint32, err error) {
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
	if sum > maxMsgSize {
		return 0, &verbs.ParamError{Field: "message bytes", Value: int64(sum), Limit: maxMsgSize}
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

// nextToSend first executes the local requests whose turn has come. Then it returns the
// next request to be sent, or nil. It returns the same request until markSent is called.
func (q *qp) nextToSend() *wqe {
	w := q.nextRequest()
	for w != nil && w.op.Local() {
		if !q.executeLocal(w) {
			return nil
		}
		w = q.nextRequest()
	}
	return w
}

// nextRequest returns the request to be sent or executed next, or nil.
func (q *qp) nextRequest() *wqe {
	if q.sq.next == q.sq.tail || q.rnr.waiting {
		return nil
	}
	w := q.sq.at(q.sq.next)
	if !q.nextIsNew() {
		// A request of which a part was sent is continued even in SQD.
		if w.status != verbs.StatusSuccess {
			return nil
		}
		return w
	}
	if !q.mayStart(w) {
		return nil
	}
	if status := q.checkLocalMemory(w); status != verbs.StatusSuccess {
		q.failRequest(w, status)
		return nil
	}
	return w
}

// executeLocal executes the bind or local invalidation from nextRequest. The request
// completes after the requests before it. If it fails, executeLocal returns false.
func (q *qp) executeLocal(w *wqe) bool {
	if !q.nextIsNew() {
		// A retransmission has reached this request again. Local requests are not repeated.
		q.sq.next++
		return true
	}
	if w.op == verbs.OpBindMW && !q.executeBind(w.key) {
		q.failRequest(w, verbs.StatusMWBindErr)
		return false
	}
	if w.op == verbs.OpLocalInv && !q.invalidate(w.key) {
		q.failRequest(w, verbs.StatusLocQPOpErr)
		return false
	}
	q.localWait = q.localWait || q.signaled(w)
	q.executed(w)
	return true
}

// executeBind executes the bind from nextRequest. The window gets the given key.
func (q *qp) executeBind(key uint32) bool {
	b := q.sq.bindAt(q.sq.next)
	r := *b
	*b = bindRequest{} // The reference to the region is removed for the garbage collector.
	return q.bind(&r, key)
}

// takeLocalWait reports whether a signaled bind or local invalidation was executed since
// the last call. Such a request completes only after all earlier requests. So the path
// asks the peer to acknowledge the earlier requests.
func (r *requester) takeLocalWait() bool {
	wait := r.localWait
	if wait {
		r.localWait = false
	}
	return wait
}

// nextIsNew reports whether no part of the next request was ever sent.
func (q *qp) nextIsNew() bool { return q.sq.next == q.sq.firstNew }

// mayStart reports whether a new request may be sent now.
func (q *qp) mayStart(w *wqe) bool {
	switch {
	case q.state != verbs.StateRTS:
		return false
	case w.flags&verbs.SendFence != 0 && q.reads > 0:
		// A fenced request waits for READs and atomics; see IBV_SEND_FENCE in
		// ibv_post_send(3).
		return false
	}
	return !w.expectsResponse() || q.reads < int(q.attr.MaxRdAtomic) || q.attr.MaxRdAtomic == 0
}

// outstanding reports whether a request was sent, at least in part, and has not
// completed.
func (q *qp) outstanding() bool { return q.sq.outstanding() }

// oldestRequest returns the oldest outstanding request and its position in the send
// queue. Without an outstanding request, w is nil.
func (q *qp) oldestRequest() (w *wqe, position uint32) {
	if q.sq.outstanding() {
		w = q.sq.at(q.sq.oldest)
	}
	return w, q.sq.oldest
}

// hasUnsent reports whether a part of a queued request has to be sent.
func (q *qp) hasUnsent() bool { return q.sq.next != q.sq.tail }

// drains reports whether the queue pair is in SQD and waits for outstanding requests.
func (q *qp) drains() bool { return q.state == verbs.StateSQD && !q.drained }

// awaitsRNRTimer reports whether the RNR timer runs. Until it fires, no request is sent.
func (q *qp) awaitsRNRTimer() bool { return q.rnr.waiting }

// failRequest is called if the next request can not be sent. The request completes with
// an error when the requests before it have completed. No later request is sent.
func (q *qp) failRequest(w *wqe, status verbs.Status) {
	if q.nextIsNew() {
		q.sq.firstNew++
	}
	w.status = status
	q.retire(q.path.acked())
}

// checkLocalMemory checks the memory of a request before it is sent.
func (q *qp) checkLocalMemory(w *wqe) verbs.Status {
	var access verbs.Access
	if w.expectsResponse() {
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

// markBegun records that a fragment of the request from nextToSend was sent.
func (q *qp) markBegun(w *wqe) {
	if !q.nextIsNew() {
		return
	}
	q.sq.firstNew++
	if w.expectsResponse() {
		q.reads++
	}
	if q.signaled(w) || w.expectsResponse() {
		q.signaledCount++
	}
}

// markNextBegun marks the next request as begun, if none is outstanding. So this request
// gets the error of a connection that fails while it waits to send.
func (q *qp) markNextBegun() {
	if q.outstanding() {
		return
	}
	if w := q.nextToSend(); w != nil {
		q.markBegun(w)
	}
}

// markSent records that the request from nextToSend was sent. The parameter seq is the
// sequence of its last fragment.
func (q *qp) markSent(w *wqe, seq uint64) {
	q.markBegun(w)
	w.lastSeq = seq
	q.sq.next++
}

// executed is called when the next request was executed without the peer. The request is
// a WRITE, a bind or a local invalidation. It completes after the requests before it.
func (q *qp) executed(w *wqe) {
	q.markSent(w, 0)
	w.responseComplete = true
	q.retire(q.path.acked())
}

// signaled reports whether the request has a completion when it succeeds.
func (q *qp) signaled(w *wqe) bool { return q.signalAll || w.flags&verbs.SendSignaled != 0 }

// rewind makes the oldest unacknowledged request the next one to be sent.
func (q *qp) rewind() { q.sq.rewind() }

// rewindTo finds the first sent request whose path sequence is seq or later, and makes it
// the next one to be sent. If there is no such request, rewindTo returns false.
func (q *qp) rewindTo(seq uint64) bool { return q.sq.rewindTo(seq) }

// gather copies bytes of the message. It returns false if the memory is not accessible.
func (q *qp) gather(dst []byte, w *wqe, offset uint32) bool {
	if w.flags&verbs.SendInline != 0 {
		copy(dst, w.inline[offset:])
		return true
	}
	return q.pd.gather(dst, w.sges, offset, false)
}

// gatherUncached is like gather for a request without inline data. If possible, its
// stores to dst bypass the caches of the processor.
func (q *qp) gatherUncached(dst []byte, w *wqe, offset uint32) bool {
	return q.pd.gather(dst, w.sges, offset, true)
}
