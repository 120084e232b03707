//go:build linux

package qp

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// messageState says whether a message of the peer is incomplete, and of which kind it
// is.
type messageState uint8

const (
	// messageNone: no message is incomplete, so the next fragment must begin a message.
	// A failed SEND also leads to this state.
	messageNone messageState = iota
	// messageSend: a SEND has begun, and has taken a receive buffer. The next fragment
	// must be of that SEND.
	messageSend
	// messageWrite: a WRITE has begun. The next fragment must be of that WRITE. Only the
	// last fragment of a WRITE with immediate data takes a receive buffer.
	messageWrite
)

// responder is the receiving half of a queue pair. It executes the peer's requests in
// order.
type responder struct {
	mode        verbs.RecvMode
	refusals    uint8 // number of refusals in a row because of RecvPaused, at most MaxTimerCode
	message     messageState
	buffer      rqe         // receive buffer of the current message
	offset      uint32      // bytes of the current SEND that were copied to buffer
	writeLeft   MemoryRange // memory of the current WRITE that is still to be written
	writeLength uint32      // bytes of the whole current WRITE
}

// expects reports whether a fragment may come next. The parameter state is the kind of
// its message: messageSend or messageWrite.
func (rs *responder) expects(first bool, state messageState) bool {
	if first {
		return rs.message == messageNone
	}
	return rs.message == state
}

// A MemoryRange is the memory of a READ or WRITE, or the rest of that memory. The region
// is looked up for each fragment, because the region may be closed in between.
type MemoryRange struct {
	Addr uint64
	Key  uint32
	Left uint32
}

// Deliver executes one fragment of a SEND or WRITE. If the outcome is OutcomeRNR,
// Deliver may be called again. It may end another queue pair of the same SRQ, whose message
// has stalled.
func (q *QP) Deliver(f *fragment.Fragment) Outcome {
	switch f.Op {
	case fragment.Send, fragment.SendInv:
		return q.deliverSend(f)
	case fragment.Write:
		return q.deliverWrite(f)
	}
	return OutcomeInvalidRequest
}

// receiveQueue returns the receive queue of the SRQ. Without an SRQ, it returns the
// queue of the queue pair.
func (q *QP) receiveQueue() *recvQueue {
	if q.srq != nil {
		return &q.srq.rq
	}
	return &q.rq
}

// ReceiveBuffers returns the number of posted receive buffers. The buffer of an
// incomplete SEND counts. Buffers of an SRQ do not count.
func (q *QP) ReceiveBuffers() int {
	n := q.rq.len()
	if q.message == messageSend {
		n++
	}
	return n
}

// SharesReceives reports whether the queue pair takes receive buffers from an SRQ.
func (q *QP) SharesReceives() bool { return q.srq != nil }

// popReceive takes the oldest buffer of the receive queue; see recvQueue.pop. While
// receiving is paused, it returns false.
func (q *QP) popReceive(into *rqe) bool {
	if q.mode == verbs.RecvPaused {
		q.refusals = min(q.refusals+1, verbs.MaxTimerCode)
		return false
	}
	if q.srq != nil {
		return q.srq.pop(into)
	}
	return q.rq.pop(into)
}

// deliverSend executes one fragment of a SEND.
func (q *QP) deliverSend(f *fragment.Fragment) Outcome {
	rs := &q.responder
	if !rs.expects(f.First(), messageSend) {
		return q.OnInvalidRequest()
	}
	if f.First() {
		if !f.Last() && !q.mayBegin() || !q.popReceive(&rs.buffer) {
			return OutcomeRNR
		}
		rs.message, rs.offset = messageSend, 0
	}
	if uint64(rs.offset)+uint64(len(f.Payload)) > uint64(rs.buffer.size) {
		return q.failReceive(verbs.StatusLocLenErr, OutcomeInvalidRequest)
	}
	if !q.scatter(f.Payload, rs.offset) {
		return q.failReceive(verbs.StatusLocProtErr, OutcomeOperationError)
	}
	rs.offset += uint32(len(f.Payload))
	if f.Op == fragment.SendInv && f.Last() && !q.invalidate(f.Imm) {
		return q.failReceive(verbs.StatusRemInvReqErr, OutcomeAccessError)
	}
	if f.Last() {
		q.completeReceive(f, verbs.WCRecv, rs.offset)
	} else {
		q.onFragment(f.First())
	}
	return OutcomeAck
}

// DeliverInline executes a small SEND of one fragment, whose bytes the present poll returns.
// It returns the completion, or nil if the poll can not return the bytes. The caller may set
// WC.Time.
func (q *QP) DeliverInline(payload []byte, solicited bool) *verbs.WC {
	c := q.recvCQ
	if q.mode != verbs.RecvInline || !c.batch.takesInline() || c.head != c.tail || q.message != messageNone ||
		len(payload) > verbs.InlineBytes {
		return nil
	}
	buffer := q.receiveQueue().peek()
	if buffer == nil || uint32(len(payload)) > buffer.size {
		return nil
	}
	wc, data := c.batch.pushInline()
	wc.ID, wc.Status, wc.Opcode, wc.Flags = buffer.id, verbs.StatusSuccess, verbs.WCRecv, verbs.WCInline
	wc.ByteLen, wc.Imm, wc.QPN, wc.SrcQPN, wc.VendorErr, wc.Time = uint32(len(payload)), 0, q.num, 0, 0, 0
	copy(data[:], payload)
	c.added(solicited)
	return wc
}

// InlineBatchFull is called after DeliverInline has failed. It reports whether the only
// reason is that the present poll can return no more completions.
func (q *QP) InlineBatchFull() bool {
	c := q.recvCQ
	return q.mode == verbs.RecvInline && c.batch.fullInline() && c.head == c.tail
}

// scatter copies data to the current receive buffer, beginning at an offset.
func (q *QP) scatter(data []byte, offset uint32) bool {
	return q.pd.scatter(q.buffer.sges, offset, data)
}

// completeReceive completes the receive buffer of a message. The parameter f is the last
// fragment.
func (q *QP) completeReceive(f *fragment.Fragment, op verbs.WCOpcode, length uint32) {
	wc := verbs.WC{Opcode: op, ByteLen: length, Time: f.Time}
	if f.Flags&fragment.Imm != 0 {
		wc.Flags, wc.Imm = verbs.WCWithImm, f.Imm
	} else if f.Op == fragment.SendInv {
		wc.Flags, wc.Imm = verbs.WCWithInv, f.Imm
	}
	q.receiveDone(&wc, f.Flags&fragment.Solicited != 0)
}

// receiveDone adds the completion of the current receive buffer.
func (q *QP) receiveDone(wc *verbs.WC, solicited bool) {
	wc.ID, wc.QPN = q.buffer.id, q.num
	q.message = messageNone
	if q.partial.state != partialNone {
		q.endPartial()
	}
	q.recvCQ.push(wc, &q.receiveQueue().cqSpace, solicited)
}

// OnInvalidRequest returns OutcomeInvalidRequest. If a SEND is incomplete, its receive
// buffer completes with an error.
func (q *QP) OnInvalidRequest() Outcome {
	return q.failReceive(verbs.StatusRemInvReqErr, OutcomeInvalidRequest)
}

// failReceive is called when a request fails. If a SEND is incomplete, its receive
// buffer completes with the given status. The result is the given outcome.
func (q *QP) failReceive(status verbs.Status, o Outcome) Outcome {
	if q.message == messageSend {
		q.receiveDone(&verbs.WC{Status: status}, false)
	}
	return o
}

// deliverWrite executes one fragment of a WRITE.
func (q *QP) deliverWrite(f *fragment.Fragment) Outcome {
	rs := &q.responder
	if !rs.expects(f.First(), messageWrite) {
		return q.OnInvalidRequest()
	}
	if f.First() {
		if o := q.beginWrite(f); o != OutcomeAck {
			return o
		}
	}
	if uint32(len(f.Payload)) > rs.writeLeft.Left || f.Last() != (uint32(len(f.Payload)) == rs.writeLeft.Left) {
		return OutcomeInvalidRequest
	}
	endsWithImm := f.Last() && f.Flags&fragment.Imm != 0
	if endsWithImm && !q.popReceive(&rs.buffer) {
		return OutcomeRNR
	}
	if len(f.Payload) > 0 {
		m, dst := q.acquireRemote(rs.writeLeft.Key, rs.writeLeft.Addr, uint32(len(f.Payload)), verbs.AccessRemoteWrite)
		if m == nil {
			if endsWithImm {
				q.receiveDone(&verbs.WC{Status: verbs.StatusLocAccessErr}, false)
			}
			return OutcomeAccessError
		}
		ok := m.copy(dst, f.Payload)
		m.release()
		if !ok {
			if endsWithImm {
				q.receiveDone(&verbs.WC{Status: verbs.StatusLocProtErr}, false)
			}
			return OutcomeOperationError
		}
	}
	rs.writeLeft.Addr += uint64(len(f.Payload))
	rs.writeLeft.Left -= uint32(len(f.Payload))
	rs.message = messageWrite
	if f.Last() {
		rs.message = messageNone
	}
	if endsWithImm {
		q.completeReceive(f, verbs.WCRecvWriteImm, rs.writeLength)
	}
	return OutcomeAck
}

// ForgetWrite drops an incomplete WRITE. The peer sends it again from its beginning.
func (q *QP) ForgetWrite() {
	if q.message == messageWrite {
		q.message = messageNone
	}
}

// beginWrite checks a WRITE, and stores its memory range in writeLeft. A WRITE of zero
// bytes is not checked for access errors (IBTA vol. 1, 9.7.4.1.3).
func (q *QP) beginWrite(f *fragment.Fragment) Outcome {
	if q.attr.Access&verbs.AccessRemoteWrite == 0 {
		return OutcomeInvalidRequest
	}
	if f.Total > 0 && !q.accessAllowed(f, verbs.AccessRemoteWrite) {
		return OutcomeAccessError
	}
	q.writeLeft, q.writeLength = MemoryRange{f.Addr, f.Key, f.Total}, f.Total
	return OutcomeAck
}

// accessAllowed checks the key, the bounds and the access rights of a request.
func (q *QP) accessAllowed(f *fragment.Fragment, access verbs.Access) bool {
	m, _ := q.acquireRemote(f.Key, f.Addr, f.Total, access)
	if m == nil {
		return false
	}
	m.release()
	return true
}

// DeliverRead checks a READ, and returns its memory for ReadInto.
func (q *QP) DeliverRead(f *fragment.Fragment) (MemoryRange, Outcome) {
	rs := &q.responder
	if rs.message != messageNone || !f.First() || !f.Last() || q.attr.MaxDestRdAtomic == 0 ||
		q.attr.Access&verbs.AccessRemoteRead == 0 {
		return MemoryRange{}, q.OnInvalidRequest()
	}
	if f.Total > 0 && !q.accessAllowed(f, verbs.AccessRemoteRead) {
		return MemoryRange{}, OutcomeAccessError
	}
	return MemoryRange{f.Addr, f.Key, f.Total}, OutcomeAck
}

// ReadInto fills dst from the beginning of a range, and removes these bytes from the
// range. The result is OutcomeAck, OutcomeAccessError if the region was closed, or
// OutcomeOperationError if its memory is missing.
func (q *QP) ReadInto(dst []byte, from *MemoryRange) Outcome {
	if len(dst) > 0 {
		m, src := q.acquireRemote(from.Key, from.Addr, uint32(len(dst)), verbs.AccessRemoteRead)
		if m == nil {
			return OutcomeAccessError
		}
		ok := m.copy(dst, src)
		m.release()
		if !ok {
			return OutcomeOperationError
		}
	}
	from.Addr += uint64(len(dst))
	from.Left -= uint32(len(dst))
	return OutcomeAck
}

// DeliverAtomic executes an atomic, and returns the old value. The payload has the swap
// or add operand, then the compare operand (IBTA vol. 1, 9.3.4).
func (q *QP) DeliverAtomic(f *fragment.Fragment) (old uint64, o Outcome) {
	rs := &q.responder
	if rs.message != messageNone || len(f.Payload) != fragment.AtomicOperands || f.Addr%8 != 0 || q.attr.MaxDestRdAtomic == 0 ||
		q.attr.Access&verbs.AccessRemoteAtomic == 0 {
		return 0, q.OnInvalidRequest()
	}
	m, buf := q.acquireRemote(f.Key, f.Addr, 8, verbs.AccessRemoteAtomic)
	if m == nil {
		return 0, OutcomeAccessError
	}
	defer m.release()
	if m.mayFault {
		if !guarded(func() { old = executeAtomic(f, buf) }) {
			return 0, OutcomeOperationError
		}
		return old, OutcomeAck
	}
	return executeAtomic(f, buf), OutcomeAck
}

// executeAtomic executes an atomic on the word in buf, and returns the old value.
func executeAtomic(f *fragment.Fragment, buf []byte) (old uint64) {
	word := AtomicWord(buf)
	swapAdd := binary.BigEndian.Uint64(f.Payload)
	if f.Op == fragment.FetchAdd {
		return word.Add(swapAdd) - swapAdd
	}
	return CompareAndSwap(word, binary.BigEndian.Uint64(f.Payload[8:]), swapAdd)
}

// CompareAndSwap stores swap in word if its value is compare. It returns the old value.
func CompareAndSwap(word *atomic.Uint64, compare, swap uint64) (old uint64) {
	for {
		old = word.Load()
		if old != compare || word.CompareAndSwap(old, swap) {
			return old
		}
	}
}

// A Grant is what a queue pair allows the peer's queue pair. Its zero value allows
// nothing.
type Grant struct {
	Domain uint32 // number of the protection domain
	Access verbs.Access
}

// Grants returns what the queue pair allows its peer.
func (q *QP) Grants() Grant {
	if !q.IsServing() {
		return Grant{}
	}
	allowed := q.attr.Access
	if q.attr.MaxDestRdAtomic == 0 {
		allowed &= verbs.AccessRemoteWrite
	}
	return Grant{q.pd.num, allowed}
}

// PassRegion sends the descriptor of a region of the domain to the peer. It returns false
// if the peer can not map the region.
func (q *QP) PassRegion(key uint32, doorbell int) bool {
	m := q.engine.mrs.find(key)
	if m == nil || m.pd != q.pd || m.memory.region == nil || !m.acquire() {
		return false
	}
	defer m.release()
	return m.memory.region.PassTo(doorbell)
}

// RequestFailed ends the queue pair. The path calls it after the NAK for a failed
// request.
func (q *QP) RequestFailed(o Outcome) {
	event := verbs.AsyncQPRequestError
	switch o {
	case OutcomeInvalidRequest:
		q.CountViolation()
	case OutcomeAccessError:
		event = verbs.AsyncQPAccessError
		q.blame(q.engine.Access.CountError)
	}
	// Another outcome is a fault of this side, such as missing memory.
	q.raise(event)
	q.enterError()
}

// blame calls count for the source of the peer. The caller then makes the queue pair
// enter the error state, and in this state nothing is counted.
func (q *QP) blame(count func(access.Source)) {
	if source, ok := q.rc.AccessSource(); ok && q.state != verbs.StateError {
		count(source)
	}
}
