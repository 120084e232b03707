//go:build linux

package soft

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// responder is the receiving half of a queue pair: it carries out the peer's
// requests, in order, against the receive queue and the memory regions.
type responder struct {
	buffer      rqe  // the buffer of the message under way
	hasBuffer   bool // current is taken
	offset      uint32
	writeLeft   memoryRange // what is left of the WRITE under way
	writeLength uint32      // bytes of all of it
	inWrite     bool
}

// A memoryRange is a stretch of local memory as a peer named it, less what was
// moved of it already. It is looked up again for each fragment, so that the region
// may be closed in between.
type memoryRange struct {
	addr uint64
	key  uint32
	left uint32
}

// deliver carries out one fragment of a SEND or WRITE. With any answer but
// outcomeAck nothing was changed that repeating the fragment would change again.
func (q *qp) deliver(r *inboundRequest) outcome {
	switch r.op {
	case frameSend:
		return q.deliverSend(r)
	case frameWrite:
		return q.deliverWrite(r)
	}
	return outcomeInvalidRequest
}

// takeBuffer gets a receive buffer for the message that begins, or that ends
// with immediate data.
func (q *qp) takeBuffer() bool {
	if !q.hasBuffer {
		q.hasBuffer, q.offset = q.popReceive(&q.buffer), 0
	}
	return q.hasBuffer
}

// receives is where the queue pair's buffers come from.
func (q *qp) receiveQueue() *recvQueue {
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

func (q *qp) deliverSend(r *inboundRequest) outcome {
	rs := &q.responder
	// A message is FIRST, MIDDLE.. and LAST, with nothing between them.
	if r.first() == rs.hasBuffer || rs.inWrite {
		return q.failReceive(verbs.StatusRemInvReqErr, outcomeInvalidRequest)
	}
	if !q.takeBuffer() {
		return outcomeRNR
	}
	if uint64(rs.offset)+uint64(len(r.payload)) > rs.buffer.capacity() {
		return q.failReceive(verbs.StatusLocLenErr, outcomeInvalidRequest)
	}
	if !q.scatter(r.payload, rs.offset) {
		return q.failReceive(verbs.StatusLocProtErr, outcomeOperationError)
	}
	rs.offset += uint32(len(r.payload))
	if r.last() {
		q.completeReceive(r, verbs.WCRecv, rs.offset)
	} else {
		q.onFragment(r.first())
	}
	return outcomeAck
}

// scatter copies data into the receive buffer at hand, from offset on.
func (q *qp) scatter(data []byte, offset uint32) bool {
	return q.pd.scatter(q.buffer.sges, offset, data)
}

func (q *qp) completeReceive(r *inboundRequest, op verbs.WCOpcode, length uint32) {
	wc := verbs.WC{Opcode: op, ByteLen: length}
	if r.flags&flagImm != 0 {
		wc.Flags, wc.Imm = verbs.WCWithImm, r.imm
	}
	q.receiveDone(&wc, r.flags&flagSolicited != 0)
}

// receiveDone completes the buffer that was taken.
func (q *qp) receiveDone(wc *verbs.WC, solicited bool) {
	wc.ID, wc.QPN = q.buffer.id, q.num
	q.hasBuffer = false
	q.recvCQ.push(wc, &q.receiveQueue().cqSpace, solicited)
}

// refuse completes a receive buffer that was taken already with an error, and
// returns the answer for the peer. The caller's path sends it and then calls
// requestFailed.
func (q *qp) failReceive(status verbs.Status, a outcome) outcome {
	if q.hasBuffer {
		q.receiveDone(&verbs.WC{Status: status}, false)
	}
	return a
}

func (q *qp) deliverWrite(r *inboundRequest) outcome {
	rs := &q.responder
	if r.first() == rs.inWrite || rs.hasBuffer {
		return q.failReceive(verbs.StatusRemInvReqErr, outcomeInvalidRequest)
	}
	if r.first() {
		// IBTA vol. 1, 9.7.4.1.3: an operation that the QP does not allow is an
		// invalid request; keys, bounds and rights of the memory are an access
		// error, and do not count for zero bytes.
		if q.attr.Access&verbs.AccessRemoteWrite == 0 {
			return outcomeInvalidRequest
		}
		if r.total > 0 && !q.accessAllowed(r, verbs.AccessRemoteWrite) {
			return outcomeAccessError
		}
		rs.writeLeft, rs.writeLength = memoryRange{r.addr, r.key, r.total}, r.total
	}
	if uint32(len(r.payload)) > rs.writeLeft.left || r.last() != (uint32(len(r.payload)) == rs.writeLeft.left) {
		return outcomeInvalidRequest
	}
	if r.last() && r.flags&flagImm != 0 && !q.takeBuffer() {
		return outcomeRNR
	}
	if len(r.payload) > 0 {
		m, dst := q.pd.acquireRemote(rs.writeLeft.key, rs.writeLeft.addr, uint32(len(r.payload)), verbs.AccessRemoteWrite)
		if m == nil {
			return q.failReceive(verbs.StatusLocAccessErr, outcomeAccessError)
		}
		copy(dst, r.payload)
		m.release()
	}
	rs.writeLeft.addr += uint64(len(r.payload))
	rs.writeLeft.left -= uint32(len(r.payload))
	rs.inWrite = !r.last()
	if r.last() && r.flags&flagImm != 0 {
		rs.offset = 0
		q.completeReceive(r, verbs.WCRecvWriteImm, rs.writeLength)
	}
	return outcomeAck
}

// allowed checks the whole of the memory a request names.
func (q *qp) accessAllowed(r *inboundRequest, access verbs.Access) bool {
	m, _ := q.pd.acquireRemote(r.key, r.addr, r.total, access)
	if m == nil {
		return false
	}
	m.release()
	return true
}

// deliverRead checks a READ, and returns the memory that the path answers it
// with, by readInto.
func (q *qp) deliverRead(r *inboundRequest) (memoryRange, outcome) {
	rs := &q.responder
	if rs.hasBuffer || rs.inWrite || !r.first() || !r.last() || q.attr.MaxDestRdAtomic == 0 ||
		q.attr.Access&verbs.AccessRemoteRead == 0 {
		return memoryRange{}, q.failReceive(verbs.StatusRemInvReqErr, outcomeInvalidRequest)
	}
	if r.total > 0 && !q.accessAllowed(r, verbs.AccessRemoteRead) {
		return memoryRange{}, outcomeAccessError
	}
	return memoryRange{r.addr, r.key, r.total}, outcomeAck
}

// readInto fills dst from the beginning of w, and moves w on. It returns false
// when the memory is not accessible any more.
func (q *qp) readInto(dst []byte, w *memoryRange) bool {
	if len(dst) > 0 {
		m, src := q.pd.acquireRemote(w.key, w.addr, uint32(len(dst)), verbs.AccessRemoteRead)
		if m == nil {
			return false
		}
		copy(dst, src)
		m.release()
	}
	w.addr += uint64(len(dst))
	w.left -= uint32(len(dst))
	return true
}

// deliverAtomic carries out an atomic, whose operands are in the payload, and
// returns the value before it. The operands are in the order of the AtomicETH
// (IBTA vol. 1, 9.2.3): swap or add, then compare.
func (q *qp) deliverAtomic(r *inboundRequest) (old uint64, a outcome) {
	rs := &q.responder
	if rs.hasBuffer || rs.inWrite || len(r.payload) != 16 || r.addr%8 != 0 || q.attr.MaxDestRdAtomic == 0 ||
		q.attr.Access&verbs.AccessRemoteAtomic == 0 {
		return 0, q.failReceive(verbs.StatusRemInvReqErr, outcomeInvalidRequest)
	}
	m, buf := q.pd.acquireRemote(r.key, r.addr, 8, verbs.AccessRemoteAtomic)
	if m == nil {
		return 0, outcomeAccessError
	}
	defer m.release()
	word := atomicWord(buf)
	swapAdd := binary.BigEndian.Uint64(r.payload)
	if r.op == frameFetchAdd {
		return word.Add(swapAdd) - swapAdd, outcomeAck
	}
	compare := binary.BigEndian.Uint64(r.payload[8:])
	for {
		old = word.Load()
		if old != compare || word.CompareAndSwap(old, swapAdd) {
			return old, outcomeAck
		}
	}
}

// requestFailed ends the queue pair after a negative answer was sent.
func (q *qp) requestFailed(a outcome) {
	event := verbs.AsyncQPRequestError
	if a == outcomeAccessError {
		event = verbs.AsyncQPAccessError
		if source, ok := q.path.accessSource(); ok {
			q.dev.access.countFailure(source)
		}
	}
	q.dev.async.push(verbs.AsyncEvent{Type: event, QP: q})
	q.enterError()
}
