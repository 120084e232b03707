//go:build linux

package soft

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// responder is the receiving half of a queue pair: it carries out the peer's
// requests, in order, against the receive queue and the memory regions.
type responder struct {
	current  rqe  // the buffer of the message under way
	has      bool // current is taken
	offset   uint32
	write    remoteWindow // what is left of the WRITE under way
	written  uint32       // bytes of all of it
	midWrite bool
}

// A remoteWindow is a stretch of local memory as a peer named it, less what was
// moved of it already. It is looked up again for each fragment, so that the region
// may be closed in between.
type remoteWindow struct {
	addr uint64
	key  uint32
	left uint32
}

// deliver carries out one fragment of a SEND or WRITE. With any answer but
// answerAck nothing was changed that repeating the fragment would change again.
func (q *qp) deliver(r *request) answer {
	switch r.op {
	case frameSend:
		return q.deliverSend(r)
	case frameWrite:
		return q.deliverWrite(r)
	}
	return answerInvalidRequest
}

// takeBuffer gets a receive buffer for the message that begins, or that ends
// with immediate data.
func (q *qp) takeBuffer() bool {
	if !q.has {
		q.has, q.offset = q.popReceive(&q.current), 0
	}
	return q.has
}

// receives is where the queue pair's buffers come from.
func (q *qp) receives() *recvQueue {
	if q.srq != nil {
		return &q.srq.rq
	}
	return &q.rq
}

func (q *qp) popReceive(into *rqe) bool {
	if q.srq != nil {
		return q.srq.pop(into)
	}
	return q.rq.pop(into)
}

func (q *qp) deliverSend(r *request) answer {
	rs := &q.responder
	// A message is FIRST, MIDDLE.. and LAST, with nothing between them.
	if r.first() == rs.has || rs.midWrite {
		return q.refuse(verbs.StatusRemInvReqErr, answerInvalidRequest)
	}
	if !q.takeBuffer() {
		return answerRNR
	}
	if uint64(rs.offset)+uint64(len(r.payload)) > rs.current.capacity() {
		return q.refuse(verbs.StatusLocLenErr, answerInvalidRequest)
	}
	if !q.scatter(r.payload, rs.offset) {
		return q.refuse(verbs.StatusLocProtErr, answerOperationError)
	}
	rs.offset += uint32(len(r.payload))
	if r.last() {
		q.completeReceive(r, verbs.WCRecv, rs.offset)
	} else {
		q.fragmentTaken(r.first())
	}
	return answerAck
}

// scatter copies data into the receive buffer at hand, from offset on.
func (q *qp) scatter(data []byte, offset uint32) bool {
	return q.pd.scatter(q.current.sges, offset, data)
}

func (q *qp) completeReceive(r *request, op verbs.WCOpcode, length uint32) {
	wc := verbs.WC{Opcode: op, ByteLen: length}
	if r.flags&flagImm != 0 {
		wc.Flags, wc.Imm = verbs.WCWithImm, r.imm
	}
	q.receiveDone(&wc, r.flags&flagSolicited != 0)
}

// receiveDone completes the buffer that was taken.
func (q *qp) receiveDone(wc *verbs.WC, solicited bool) {
	wc.ID, wc.QPN = q.current.id, q.num
	q.has = false
	q.recvCQ.push(wc, &q.receives().places, solicited)
}

// refuse completes a receive buffer that was taken already with an error, and
// returns the answer for the peer. The caller's path sends it and then calls
// requestFailed.
func (q *qp) refuse(status verbs.Status, a answer) answer {
	if q.has {
		q.receiveDone(&verbs.WC{Status: status}, false)
	}
	return a
}

func (q *qp) deliverWrite(r *request) answer {
	rs := &q.responder
	if r.first() == rs.midWrite || rs.has {
		return q.refuse(verbs.StatusRemInvReqErr, answerInvalidRequest)
	}
	if r.first() {
		// IBTA vol. 1, 9.7.4.1.3: an operation that the QP does not allow is an
		// invalid request; keys, bounds and rights of the memory are an access
		// error, and do not count for zero bytes.
		if q.attr.Access&verbs.AccessRemoteWrite == 0 {
			return answerInvalidRequest
		}
		if r.total > 0 && !q.allowed(r, verbs.AccessRemoteWrite) {
			return answerAccessError
		}
		rs.write, rs.written = remoteWindow{r.addr, r.key, r.total}, r.total
	}
	if uint32(len(r.payload)) > rs.write.left || r.last() != (uint32(len(r.payload)) == rs.write.left) {
		return answerInvalidRequest
	}
	if r.last() && r.flags&flagImm != 0 && !q.takeBuffer() {
		return answerRNR
	}
	if len(r.payload) > 0 {
		m, dst := q.pd.enterRemote(rs.write.key, rs.write.addr, uint32(len(r.payload)), verbs.AccessRemoteWrite)
		if m == nil {
			return q.refuse(verbs.StatusLocAccessErr, answerAccessError)
		}
		copy(dst, r.payload)
		m.leave()
	}
	rs.write.addr += uint64(len(r.payload))
	rs.write.left -= uint32(len(r.payload))
	rs.midWrite = !r.last()
	if r.last() && r.flags&flagImm != 0 {
		rs.offset = 0
		q.completeReceive(r, verbs.WCRecvWriteImm, rs.written)
	}
	return answerAck
}

// allowed checks the whole of the memory a request names.
func (q *qp) allowed(r *request, access verbs.Access) bool {
	m, _ := q.pd.enterRemote(r.key, r.addr, r.total, access)
	if m == nil {
		return false
	}
	m.leave()
	return true
}

// deliverRead checks a READ, and returns the memory that the path answers it
// with, by readInto.
func (q *qp) deliverRead(r *request) (remoteWindow, answer) {
	rs := &q.responder
	if rs.has || rs.midWrite || !r.first() || !r.last() || q.attr.MaxDestRdAtomic == 0 ||
		q.attr.Access&verbs.AccessRemoteRead == 0 {
		return remoteWindow{}, q.refuse(verbs.StatusRemInvReqErr, answerInvalidRequest)
	}
	if r.total > 0 && !q.allowed(r, verbs.AccessRemoteRead) {
		return remoteWindow{}, answerAccessError
	}
	return remoteWindow{r.addr, r.key, r.total}, answerAck
}

// readInto fills dst from the beginning of w, and moves w on. It returns false
// when the memory is not accessible any more.
func (q *qp) readInto(dst []byte, w *remoteWindow) bool {
	if len(dst) > 0 {
		m, src := q.pd.enterRemote(w.key, w.addr, uint32(len(dst)), verbs.AccessRemoteRead)
		if m == nil {
			return false
		}
		copy(dst, src)
		m.leave()
	}
	w.addr += uint64(len(dst))
	w.left -= uint32(len(dst))
	return true
}

// deliverAtomic carries out an atomic, whose operands are in the payload, and
// returns the value before it. The operands are in the order of the AtomicETH
// (IBTA vol. 1, 9.2.3): swap or add, then compare.
func (q *qp) deliverAtomic(r *request) (old uint64, a answer) {
	rs := &q.responder
	if rs.has || rs.midWrite || len(r.payload) != 16 || r.addr%8 != 0 || q.attr.MaxDestRdAtomic == 0 ||
		q.attr.Access&verbs.AccessRemoteAtomic == 0 {
		return 0, q.refuse(verbs.StatusRemInvReqErr, answerInvalidRequest)
	}
	m, buf := q.pd.enterRemote(r.key, r.addr, 8, verbs.AccessRemoteAtomic)
	if m == nil {
		return 0, answerAccessError
	}
	defer m.leave()
	word := atomicWord(buf)
	swapAdd := binary.BigEndian.Uint64(r.payload)
	if r.op == frameFetchAdd {
		return word.Add(swapAdd) - swapAdd, answerAck
	}
	compare := binary.BigEndian.Uint64(r.payload[8:])
	for {
		old = word.Load()
		if old != compare || word.CompareAndSwap(old, swapAdd) {
			return old, answerAck
		}
	}
}

// requestFailed ends the queue pair after a negative answer was sent.
func (q *qp) requestFailed(a answer) {
	event := verbs.AsyncQPRequestError
	if a == answerAccessError {
		event = verbs.AsyncQPAccessError
		if source, ok := q.path.source(); ok {
			q.dev.access.failed(source)
		}
	}
	q.dev.async.push(verbs.AsyncEvent{Type: event, QP: q})
	q.enterError()
}
