//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// requester is the sending half of a queue pair: what is to be sent next, what
// the answers mean, when to give up.
type requester struct {
	responded     uint64 // path sequences below are answered
	reads         int    // READs and atomics outstanding
	nextRead      uint32 // position in the send queue from which the next response's request is looked for
	waitingRNR    bool   // until rnrTimer fires
	rnrLeft       uint8
	signaledCount int // signaled requests outstanding
	rnrTimer      timer
	responseTimer timer // the peer does not answer
}

// validate checks a request before it is queued and returns its length.
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
			return 0, &verbs.ParamError{Field: "send SGEs", Value: int64(len(wr.SGEs)), Reason: "given with SendInline"}
		}
		if len(wr.Inline) > q.caps.MaxInline {
			return 0, &verbs.ParamError{Field: "inline bytes", Value: int64(len(wr.Inline)), Limit: int64(q.caps.MaxInline)}
		}
		if wr.Opcode == verbs.OpRead || wr.Opcode.Atomic() {
			return 0, &verbs.ParamError{Field: "opcode", Value: int64(wr.Opcode), Reason: "READ and atomics have no inline data"}
		}
		sum = uint64(len(wr.Inline))
	} else if len(wr.Inline) > 0 {
		return 0, &verbs.ParamError{Field: "inline bytes", Value: int64(len(wr.Inline)), Reason: "given without SendInline"}
	}
	if sum > maxMsgSize {
		return 0, &verbs.ParamError{Field: "message bytes", Value: int64(sum), Limit: maxMsgSize}
	}
	if wr.Opcode > verbs.OpFetchAdd {
		return 0, &verbs.ParamError{Field: "opcode", Value: int64(wr.Opcode), Limit: int64(verbs.OpFetchAdd)}
	}
	if q.typ == verbs.QPTypeUD {
		if err := checkDatagram(wr); err != nil {
			return 0, err
		}
	}
	if wr.Opcode.Atomic() && sum != 8 {
		return 0, &verbs.ParamError{Field: "atomic result bytes", Value: int64(sum), Limit: 8, Reason: "atomics have a result of 8 bytes"}
	}
	return uint32(sum), nil
}

// nextToSend is the next request that may go out now, or nil. It stays the same
// until sent is called.
func (q *qp) nextToSend() *wqe {
	if q.sq.next == q.sq.tail || q.waitingRNR {
		return nil
	}
	w := q.sq.at(q.sq.next)
	if !q.nextIsNew() {
		// The rest of a message, which SQD lets end, or one that is sent again.
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

// fresh reports whether nothing of the request at hand was ever sent.
func (q *qp) nextIsNew() bool { return q.sq.next == q.sq.begun }

func (q *qp) mayStart(w *wqe) bool {
	switch {
	case q.state != verbs.StateRTS:
		return false
	case w.flags&verbs.SendFence != 0 && q.reads > 0: // ibv_post_send(3), IBV_SEND_FENCE
		return false
	}
	return !w.expectsResponse() || q.reads < int(q.attr.MaxRdAtomic) || q.attr.MaxRdAtomic == 0
}

// spoil ends the request at hand with a local error as soon as those before it
// are answered. Nothing behind it is sent.
func (q *qp) failRequest(w *wqe, status verbs.Status) {
	if q.nextIsNew() {
		q.sq.begun++
	}
	w.status = status
	q.retire()
}

// checkLocalMemory finds what is wrong with a request's own memory, before any of it
// is sent.
func (q *qp) checkLocalMemory(w *wqe) verbs.Status {
	var access verbs.Access
	if w.expectsResponse() {
		if q.attr.MaxRdAtomic == 0 {
			return verbs.StatusLocQPOpErr // none was negotiated
		}
		access = verbs.AccessLocalWrite
	}
	for i := range w.sges {
		if w.sges[i].Length == 0 {
			continue
		}
		if _, ok := q.pd.sgeMemory(&w.sges[i], access); !ok {
			return verbs.StatusLocProtErr
		}
	}
	return verbs.StatusSuccess
}

// begin records that the first fragment of the request that nextToSend returned is
// out. It may be told so for every fragment.
func (q *qp) markBegun(w *wqe) {
	if !q.nextIsNew() {
		return
	}
	q.sq.begun++
	if w.expectsResponse() {
		q.reads++
	}
	if q.signaled(w) || w.expectsResponse() {
		q.signaledCount++
	}
}

// sent records that all of the request that nextToSend returned is out, with seq as
// the sequence of its last fragment.
func (q *qp) markSent(w *wqe, seq uint64) {
	q.markBegun(w)
	w.lastSeq = seq
	q.sq.next++
}

func (q *qp) signaled(w *wqe) bool { return q.signalAll || w.flags&verbs.SendSignaled != 0 }

// rewind goes back to the oldest unanswered request, for all to be sent again
// from there on.
func (q *qp) rewind() { q.sq.next = q.sq.done }

// resetSent forgets that anything was sent, where nobody will read it.
func (q *qp) resetSent() {
	for i := q.sq.done; i != q.sq.begun; i++ {
		w := q.sq.at(i)
		w.sent, w.received, w.lastSeq = 0, 0, unsent
	}
	q.rewind()
	q.sq.begun = q.sq.done
	q.responded, q.reads, q.signaledCount = 0, 0, 0
}

// gather copies the message from offset on into dst.
func (q *qp) gather(dst []byte, w *wqe, offset uint32) bool {
	if w.flags&verbs.SendInline != 0 {
		copy(dst, w.inline[offset:])
		return true
	}
	return q.pd.gather(dst, w.sges, offset)
}

// acknowledged takes a positive answer: all path sequences below seq.
func (q *qp) acknowledged(seq uint64) {
	if seq > q.responded {
		q.responded = seq
		q.rnrLeft = q.attr.RNRRetry
		q.responseTimer.stop()
	}
	q.retire()
}

// retire completes, in order, what is answered.
func (q *qp) retire() {
	for q.sq.outstanding() && q.state != verbs.StateError {
		w := q.sq.at(q.sq.done)
		switch {
		case w.status != verbs.StatusSuccess:
			q.failOldest(w.status)
			return
		case w.expectsResponse() && !w.responseComplete, !w.expectsResponse() && w.lastSeq >= q.requester.responded:
			return
		}
		q.completeSend(w)
	}
	if q.state == verbs.StateSQD && !q.drained && !q.sq.outstanding() {
		q.drained = true
		q.dev.async.push(verbs.AsyncEvent{Type: verbs.AsyncSQDrained, QP: q})
	}
}

// completeSend retires the oldest request with success.
func (q *qp) completeSend(w *wqe) {
	if q.signaled(w) || w.expectsResponse() {
		q.requester.signaledCount--
	}
	if q.signaled(w) {
		wc := verbs.WC{ID: w.id, Opcode: sendWCOpcode[w.op], QPN: q.num}
		if w.expectsResponse() {
			wc.ByteLen = w.total
		}
		q.sq.complete(q.sendCQ, &wc)
		return
	}
	q.sq.retire()
}

var sendWCOpcode = [...]verbs.WCOpcode{
	verbs.OpWrite:       verbs.WCWrite,
	verbs.OpWriteImm:    verbs.WCWrite,
	verbs.OpSend:        verbs.WCSend,
	verbs.OpSendImm:     verbs.WCSend,
	verbs.OpRead:        verbs.WCRead,
	verbs.OpCompareSwap: verbs.WCCompareSwap,
	verbs.OpFetchAdd:    verbs.WCFetchAdd,
}

// awaited is the oldest READ or atomic without a complete response, or nil.
func (q *qp) expectedResponse() *wqe {
	r := &q.requester
	if r.reads == 0 {
		return nil
	}
	if int32(r.nextRead-q.sq.done) < 0 {
		r.nextRead = q.sq.done
	}
	for ; r.nextRead != q.sq.begun; r.nextRead++ {
		if w := q.sq.at(r.nextRead); w.expectsResponse() && !w.responseComplete {
			return w
		}
	}
	return nil
}

// response takes data that answers the oldest READ or atomic, and reports
// whether it can be true.
func (q *qp) response(op frameOp, data []byte, last bool) bool {
	w := q.expectedResponse()
	if w == nil || (op == frameReadData) != (w.op == verbs.OpRead) || uint64(w.received)+uint64(len(data)) > uint64(w.total) {
		return false
	}
	if !q.pd.scatter(w.sges, w.received, data) {
		w.status = verbs.StatusLocProtErr // the memory was closed under the request
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
	q.retire()
	return true
}

// negative takes a NAK about the oldest unanswered request.
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

// onRNR takes an RNR NAK with its timer code: wait, repeat, and give up when
// the count has run out (IBTA vol. 1, 9.7.5.2.8).
func (q *qp) onRNR(code uint8) {
	q.shard.counts.inc(rcvdRNRErr)
	r := &q.requester
	if r.rnrLeft == 0 {
		q.failOldest(verbs.StatusRNRRetryExcErr)
		return
	}
	if r.rnrLeft < verbs.RNRRetryForever {
		r.rnrLeft--
	}
	r.waitingRNR = true
	r.rnrTimer.start(verbs.RNRDelay(code))
}

func (q *qp) onRNRTimer() {
	q.requester.waitingRNR = false
	if q.path != nil && (q.state == verbs.StateRTS || q.state == verbs.StateSQD) {
		q.path.resend()
		q.path.transmit()
	}
}

// unanswered says that the peer has stopped answering although requests are
// outstanding. The path loses nothing, so the retries come to one wait of their
// total length.
func (q *qp) onNoResponse() {
	r := &q.requester
	if r.responseTimer.running() || q.attr.Timeout == 0 {
		return
	}
	wait := verbs.AckTimeout(q.attr.Timeout) * time.Duration(q.attr.RetryCount+1)
	r.responseTimer.start(wait)
}

func (q *qp) onResponseTimer() {
	if q.sq.outstanding() {
		q.failOldest(verbs.StatusRetryExcErr)
	}
}

// failOldest completes the oldest outstanding request with an error, which
// takes the queue pair to the error state.
func (q *qp) failOldest(status verbs.Status) {
	if q.sq.outstanding() {
		q.shard.counts.failed(status)
		w := q.sq.at(q.sq.done)
		q.sq.complete(q.sendCQ, &verbs.WC{ID: w.id, Status: status, QPN: q.num})
	}
	q.enterError()
}
