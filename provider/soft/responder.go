//go:build linux

package soft

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// messageState says whether a message of the peer has begun and is not complete, and of
// which kind the message is.
type messageState uint8

const (
	// messageNone: no message has begun, so the next fragment has to be the first one of
	// a message. A queue pair begins in this state. It returns to this state with the
	// last fragment of each message, and when the receive buffer of a SEND completes
	// with an error.
	messageNone messageState = iota
	// messageSend: a SEND has begun. A receive buffer was taken for it, and is not
	// completed. The next fragment has to be one of the same SEND.
	messageSend
	// messageWrite: a WRITE has begun. The next fragment has to be one of the same WRITE. A
	// WRITE with immediate data takes a receive buffer only with its last fragment.
	messageWrite
)

// responder is the receiving half of a queue pair. It executes the peer's requests in
// order, with the buffers of the receive queue and the memory regions.
type responder struct {
	receivesInline bool // ReceiveInline was called
	message        messageState
	buffer         rqe         // receive buffer of the current message
	offset         uint32      // number of bytes of the current SEND that were copied to buffer
	writeLeft      memoryRange // memory of the current WRITE that was not written yet
	writeLength    uint32      // number of bytes of the whole current WRITE
}

// expects reports whether a fragment may follow the fragments that have arrived. A
// message has a FIRST, any number of MIDDLE and a LAST fragment, or one fragment only.
// Fragments of other messages between them are invalid. The parameter first is true if
// the fragment is the first one of a message. The parameter state is messageSend for a
// fragment of a SEND, and messageWrite for a fragment of a WRITE.
func (rs *responder) expects(first bool, state messageState) bool {
	if first {
		return rs.message == messageNone
	}
	return rs.message == state
}

// A READ or WRITE of the peer names a range of memory. A memoryRange is the part of this
// range that was not accessed yet. The region is looked up again for each fragment,
// because the application may close it at any time.
type memoryRange struct {
	addr uint64
	key  uint32
	left uint32
}

// deliver executes one fragment of a SEND or WRITE. If it returns outcomeRNR, it has
// changed nothing, and the fragment may be delivered again.
func (q *qp) deliver(r *fragment.Fragment) outcome {
	switch r.Op {
	case fragment.Send:
		return q.deliverSend(r)
	case fragment.Write:
		return q.deliverWrite(r)
	}
	return outcomeInvalidRequest
}

// receiveQueue returns the queue from which receive buffers are taken: that of the SRQ
// if the queue pair has one, else the queue pair's own.
func (q *qp) receiveQueue() *recvQueue {
	if q.srq != nil {
		return &q.srq.rq
	}
	return &q.rq
}

// receiveBuffers returns the number of receive buffers that are posted and not taken,
// plus 1 if a SEND has taken a buffer and is not complete. It does not count the buffers
// of an SRQ.
func (q *qp) receiveBuffers() int {
	n := q.rq.len()
	if q.message == messageSend {
		n++
	}
	return n
}

// sharesReceives reports whether the receive buffers are those of an SRQ.
func (q *qp) sharesReceives() bool { return q.srq != nil }

// popReceive takes the oldest buffer of the receive queue; see recvQueue.pop.
func (q *qp) popReceive(into *rqe) bool {
	if q.srq != nil {
		return q.srq.pop(into)
	}
	return q.rq.pop(into)
}

// deliverSend executes one fragment of a SEND.
func (q *qp) deliverSend(r *fragment.Fragment) outcome {
	rs := &q.responder
	if !rs.expects(r.First(), messageSend) {
		return q.onInvalidRequest()
	}
	if r.First() {
		if !q.popReceive(&rs.buffer) {
			return outcomeRNR
		}
		rs.message, rs.offset = messageSend, 0
	}
	if uint64(rs.offset)+uint64(len(r.Payload)) > uint64(rs.buffer.size) {
		return q.failReceive(verbs.StatusLocLenErr, outcomeInvalidRequest)
	}
	if !q.scatter(r.Payload, rs.offset) {
		return q.failReceive(verbs.StatusLocProtErr, outcomeOperationError)
	}
	rs.offset += uint32(len(r.Payload))
	if r.Last() {
		q.completeReceive(r, verbs.WCRecv, rs.offset)
	} else {
		q.onFragment(r.First())
	}
	return outcomeAck
}

// deliverInline executes a SEND that consists of one fragment and has no immediate data,
// if PollInline can return its bytes together with its completion. For this the message
// has to be small, and no earlier completion may wait in the ring of the CQ.
// deliverInline reports whether it has executed the SEND.
func (q *qp) deliverInline(payload []byte, solicited bool) bool {
	c := q.recvCQ
	at := c.stored
	if !q.receivesInline || at >= c.inlineLimit || c.head != c.tail || q.message != messageNone ||
		len(payload) > verbs.InlineBytes {
		return false
	}
	buffer := q.receiveQueue().peek()
	if buffer == nil || uint32(len(payload)) > buffer.size {
		return false
	}
	copy(c.data[at][:], payload)
	wc := &c.dst[at]
	wc.ID, wc.Status, wc.Opcode, wc.Flags = buffer.id, verbs.StatusSuccess, verbs.WCRecv, verbs.WCInline
	wc.ByteLen, wc.Imm, wc.QPN, wc.SrcQPN, wc.VendorErr = uint32(len(payload)), 0, q.num, 0, 0
	c.stored++
	c.added(solicited)
	return true
}

// scatter copies data to the current receive buffer, from offset on.
func (q *qp) scatter(data []byte, offset uint32) bool {
	return q.pd.scatter(q.buffer.sges, offset, data)
}

// completeReceive completes the receive buffer of a message. The parameter r is the last
// fragment.
func (q *qp) completeReceive(r *fragment.Fragment, op verbs.WCOpcode, length uint32) {
	wc := verbs.WC{Opcode: op, ByteLen: length}
	if r.Flags&fragment.Imm != 0 {
		wc.Flags, wc.Imm = verbs.WCWithImm, r.Imm
	}
	q.receiveDone(&wc, r.Flags&fragment.Solicited != 0)
}

// receiveDone adds the completion wc for the receive buffer that was taken last. Before
// that it sets the ID and the queue pair number in wc.
func (q *qp) receiveDone(wc *verbs.WC, solicited bool) {
	wc.ID, wc.QPN = q.buffer.id, q.num
	q.message = messageNone
	q.recvCQ.push(wc, &q.receiveQueue().cqSpace, solicited)
}

// onInvalidRequest is called for an invalid request. If a SEND is not complete, its
// receive buffer completes with an error. onInvalidRequest returns the outcome of the
// request.
func (q *qp) onInvalidRequest() outcome {
	return q.failReceive(verbs.StatusRemInvReqErr, outcomeInvalidRequest)
}

// failReceive is called when a request has failed with the outcome a. If a SEND is not
// complete, its receive buffer completes with the given status. failReceive returns the
// outcome a. The path then sends the NAK for it, and calls requestFailed.
func (q *qp) failReceive(status verbs.Status, a outcome) outcome {
	if q.message == messageSend {
		q.receiveDone(&verbs.WC{Status: status}, false)
	}
	return a
}

// deliverWrite executes one fragment of a WRITE.
func (q *qp) deliverWrite(r *fragment.Fragment) outcome {
	rs := &q.responder
	if !rs.expects(r.First(), messageWrite) {
		return q.onInvalidRequest()
	}
	if r.First() {
		if a := q.beginWrite(r); a != outcomeAck {
			return a
		}
	}
	if uint32(len(r.Payload)) > rs.writeLeft.left || r.Last() != (uint32(len(r.Payload)) == rs.writeLeft.left) {
		return outcomeInvalidRequest
	}
	endsWithImm := r.Last() && r.Flags&fragment.Imm != 0
	if endsWithImm && !q.popReceive(&rs.buffer) {
		return outcomeRNR
	}
	if len(r.Payload) > 0 {
		m, dst := q.pd.acquireRemote(rs.writeLeft.key, rs.writeLeft.addr, uint32(len(r.Payload)), verbs.AccessRemoteWrite)
		if m == nil {
			if endsWithImm {
				q.receiveDone(&verbs.WC{Status: verbs.StatusLocAccessErr}, false)
			}
			return outcomeAccessError
		}
		copy(dst, r.Payload)
		m.release()
	}
	rs.writeLeft.addr += uint64(len(r.Payload))
	rs.writeLeft.left -= uint32(len(r.Payload))
	rs.message = messageWrite
	if r.Last() {
		rs.message = messageNone
	}
	if endsWithImm {
		q.completeReceive(r, verbs.WCRecvWriteImm, rs.writeLength)
	}
	return outcomeAck
}

// beginWrite checks the memory of a WRITE, and stores it for the fragments of the WRITE.
// An operation that the queue pair does not allow is an invalid request. A wrong key,
// address or access right is an access error. Key and address of a request for zero bytes
// are not checked (IBTA vol. 1, 9.7.4.1.3).
func (q *qp) beginWrite(r *fragment.Fragment) outcome {
	if q.attr.Access&verbs.AccessRemoteWrite == 0 {
		return outcomeInvalidRequest
	}
	if r.Total > 0 && !q.accessAllowed(r, verbs.AccessRemoteWrite) {
		return outcomeAccessError
	}
	q.writeLeft, q.writeLength = memoryRange{r.Addr, r.Key, r.Total}, r.Total
	return outcomeAck
}

// accessAllowed checks the key, the bounds and the access rights of all memory that a
// request names.
func (q *qp) accessAllowed(r *fragment.Fragment, access verbs.Access) bool {
	m, _ := q.pd.acquireRemote(r.Key, r.Addr, r.Total, access)
	if m == nil {
		return false
	}
	m.release()
	return true
}

// deliverRead checks a READ, and returns the range of memory whose contents have to be
// sent. The path then copies the contents with readInto, piece by piece.
func (q *qp) deliverRead(r *fragment.Fragment) (memoryRange, outcome) {
	rs := &q.responder
	if rs.message != messageNone || !r.First() || !r.Last() || q.attr.MaxDestRdAtomic == 0 ||
		q.attr.Access&verbs.AccessRemoteRead == 0 {
		return memoryRange{}, q.onInvalidRequest()
	}
	if r.Total > 0 && !q.accessAllowed(r, verbs.AccessRemoteRead) {
		return memoryRange{}, outcomeAccessError
	}
	return memoryRange{r.Addr, r.Key, r.Total}, outcomeAck
}

// readInto copies the beginning of the range w to dst, and then shortens w by the part
// that was copied. It returns false if the memory is not accessible any more.
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

// deliverAtomic executes an atomic, and returns the value before it. The payload has the
// operands in the order of the AtomicETH (IBTA vol. 1, 9.3.4): the swap or add operand,
// then the compare operand.
func (q *qp) deliverAtomic(r *fragment.Fragment) (old uint64, a outcome) {
	rs := &q.responder
	if rs.message != messageNone || len(r.Payload) != fragment.AtomicOperands || r.Addr%8 != 0 || q.attr.MaxDestRdAtomic == 0 ||
		q.attr.Access&verbs.AccessRemoteAtomic == 0 {
		return 0, q.onInvalidRequest()
	}
	m, buf := q.pd.acquireRemote(r.Key, r.Addr, 8, verbs.AccessRemoteAtomic)
	if m == nil {
		return 0, outcomeAccessError
	}
	defer m.release()
	word := atomicWord(buf)
	swapAdd := binary.BigEndian.Uint64(r.Payload)
	if r.Op == fragment.FetchAdd {
		return word.Add(swapAdd) - swapAdd, outcomeAck
	}
	compare := binary.BigEndian.Uint64(r.Payload[8:])
	for {
		old = word.Load()
		if old != compare || word.CompareAndSwap(old, swapAdd) {
			return old, outcomeAck
		}
	}
}

// requestFailed is called by the path after it has sent the NAK for a request with the
// outcome a. It moves the queue pair to the error state.
func (q *qp) requestFailed(a outcome) {
	event := verbs.AsyncQPRequestError
	if a == outcomeAccessError {
		event = verbs.AsyncQPAccessError
		if source, ok := q.path.accessSource(); ok {
			q.dev.access.CountError(source)
		}
	}
	q.dev.async.push(verbs.AsyncEvent{Type: event, QP: q})
	q.enterError()
}
