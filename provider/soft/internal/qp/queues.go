//go:build linux

package qp

import (
	"math"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A WQE is a work request of the send queue. The fields that pushSent sets come first, so
// that they share cache lines.
type WQE struct {
	id    uint64
	Op    verbs.Opcode
	Flags verbs.SendFlags
	// StatusSuccess, or an error that this side has found and that completes the request
	Status verbs.Status
	// true if the whole response of a READ or atomic has arrived, or if the path has
	// executed the request without the peer
	responseComplete bool
	Total            uint32 // number of bytes of the message
	// path sequence of the last fragment, or the constant Unsent while that fragment is
	// not sent
	LastSeq uint64
	inline  []byte // inline data of the message; the queue owns the slice

	Imm      uint32
	Received uint32 // number of bytes of the response received
	Addr     uint64
	Key      uint32
	Compare  uint64
	Swap     uint64
	sges     []verbs.SGE // memory of the message; the queue owns the slice

	Local shmRequest // state of the request on the local path of RC
	RC    rcRequest  // state of the request on the wire path of RC
	UD    udRequest  // destination of the request on both paths of UD
}

// A shmRequest is the part of a request for the local path of RC.
type shmRequest struct {
	Sent uint32 // number of bytes sent
}

// An rcRequest is the part of a request for the wire path of RC.
type rcRequest struct {
	FirstSeq      uint64 // path sequence of the first packet
	MessageNumber uint64 // number of the message; see rcpath.credits
}

// A udRequest is the destination of a UD request.
type udRequest struct {
	ah   verbs.AH
	QPN  uint32
	QKey uint32
}

// ExpectsResponse reports whether the request is a READ or an atomic.
func (w *WQE) ExpectsResponse() bool { return w.Op == verbs.OpRead || w.Op.Atomic() }

// done reports whether the peer has executed the request. All path sequences below acked
// were acknowledged.
func (w *WQE) done(acked uint64) bool {
	if w.ExpectsResponse() || w.responseComplete {
		return w.responseComplete
	}
	return w.LastSeq < acked
}

// Unsent is the value of WQE.LastSeq until the last fragment was sent.
const Unsent = math.MaxUint64

// A sendQueue holds requests in order. A completed request occupies its entry until its
// completion is polled; see cqSpace.
type sendQueue struct {
	entries []WQE // ring of requests; empty before the first request, and grows up to depth
	// parameters of the OpBindMW requests; they have the same index as the request in
	// entries. The slice is nil before the first OpBindMW request.
	binds []bindRequest

	// The next fields are positions in the queue. A position is a counter that wraps.

	oldest uint32 // position of the oldest request that has not completed
	// position of the request that is sent next; a part of it may have been sent
	next     uint32
	firstNew uint32 // position of the first request that was never sent
	tail     uint32 // position of the next request to be posted

	cqSpace
	depth             uint32
	maxSGE, maxInline int
}

// initialSendEntries is how many requests a send queue has room for after its first
// request. The number is small because a program may have many connections with few
// requests. Arbitrary.
const initialSendEntries = 2

func newSendQueue(caps *verbs.QPCaps) sendQueue {
	return sendQueue{depth: clampUint32(caps.MaxSendWR), maxSGE: caps.MaxSendSGE, maxInline: caps.MaxInline}
}

// grow makes room for at least one more request.
func (q *sendQueue) grow() {
	q.resize(max(min(ceilPow2(int(q.depth)), initialSendEntries), 2*len(q.entries)))
}

// resize changes the number of entries, and keeps the queued requests. The number is a
// power of two.
func (q *sendQueue) resize(size int) {
	old := *q
	q.entries = make([]WQE, size)
	sges, inline := make([]verbs.SGE, size*q.maxSGE), make([]byte, size*q.maxInline)
	for i := range q.entries {
		q.entries[i].sges = sges[i*q.maxSGE : i*q.maxSGE : (i+1)*q.maxSGE]
		q.entries[i].inline = inline[i*q.maxInline : i*q.maxInline : (i+1)*q.maxInline]
	}
	for i := q.oldest; i != q.tail; i++ {
		w, was := q.at(i), *old.at(i)
		was.sges, was.inline = append(w.sges, was.sges...), append(w.inline, was.inline...)
		*w = was
	}
	if old.binds != nil {
		q.binds = make([]bindRequest, size)
		for i := q.oldest; i != q.tail; i++ {
			*q.bindAt(i) = *old.bindAt(i)
		}
	}
}

func (q *sendQueue) at(i uint32) *WQE { return &q.entries[i&uint32(len(q.entries)-1)] }

// bindAt returns the parameters of the OpBindMW request at a position.
func (q *sendQueue) bindAt(i uint32) *bindRequest { return &q.binds[i&uint32(len(q.binds)-1)] }

// crowded reports whether no entry is free. The next request then makes the ring of
// entries grow.
func (q *sendQueue) crowded() bool { return int(q.tail-q.oldest) == len(q.entries) }

// full reports whether requests and unpolled completions occupy all entries.
func (q *sendQueue) full() bool { return q.tail-q.oldest+q.held >= q.depth }

// outstanding reports whether a request was sent, at least in part, and has not
// completed.
func (q *sendQueue) outstanding() bool { return q.oldest != q.firstNew }

// rewind makes the oldest request the next one to be sent.
func (q *sendQueue) rewind() { q.next = q.oldest }

// rewindTo marks the requests that end at the path sequence seq or later as unsent. The
// first of these requests is sent next. If there is no such request, rewindTo returns
// false.
func (q *sendQueue) rewindTo(seq uint64) bool {
	found := false
	for i := q.oldest; i != q.firstNew; i++ {
		w := q.at(i)
		if w.LastSeq < seq {
			continue
		}
		if !found {
			found, q.next = true, i
		}
		w.Local.Sent, w.LastSeq = 0, Unsent
	}
	return found
}

// retire removes the oldest request. The request may be unsent: in a flush, or after a
// call of rewind.
func (q *sendQueue) retire() {
	if q.next == q.oldest {
		q.next++
	}
	if q.firstNew == q.oldest {
		q.firstNew++
	}
	q.oldest++
}

// complete removes the oldest request, and adds its completion to the CQ c.
func (q *sendQueue) complete(c *cq, wc *verbs.WC) {
	q.retire()
	q.held++
	c.push(wc, &q.cqSpace, false)
}

// push appends a copy of a checked request. The queue must not be full.
func (q *sendQueue) push(wr *verbs.SendWR, total uint32) {
	if q.crowded() {
		q.grow()
	}
	w := q.at(q.tail)
	w.id, w.Op, w.Flags = wr.ID, wr.Opcode, wr.Flags
	w.Status, w.responseComplete = verbs.StatusSuccess, false
	w.Imm, w.Total = wr.Imm, total
	w.Local.Sent, w.Received, w.LastSeq = 0, 0, Unsent
	w.Addr, w.Key = wr.RemoteAddr, wr.RKey
	w.Compare, w.Swap = wr.CompareAdd, wr.Swap
	w.sges = append(w.sges[:0], wr.SGEs...)
	w.inline = append(w.inline[:0], wr.Inline...)
	w.UD = udRequest{wr.AH, wr.RemoteQPN, wr.RemoteQKey}
	if wr.Opcode == verbs.OpBindMW {
		if q.binds == nil {
			q.binds = make([]bindRequest, len(q.entries))
		}
		*q.bindAt(q.tail) = newBindRequest(wr)
	}
	q.tail++
}

// pushSent appends a SEND that the path has already sent. It keeps a copy of the data,
// because the SEND may have to be sent again.
func (q *sendQueue) pushSent(id uint64, flags verbs.SendFlags, data []byte, seq uint64) {
	if q.crowded() {
		q.grow()
	}
	w := q.at(q.tail)
	w.id, w.Op, w.Flags = id, verbs.OpSend, flags
	w.Status, w.responseComplete = verbs.StatusSuccess, false
	w.Total, w.LastSeq = uint32(len(data)), seq
	w.inline = append(w.inline[:0], data...)
	q.tail++
	q.next, q.firstNew = q.tail, q.tail
}

func (q *sendQueue) reset() { q.oldest, q.next, q.firstNew, q.tail, q.binds = 0, 0, 0, 0, nil }

// ceilPow2 returns the smallest power of two that is at least n and at least 1.
func ceilPow2(n int) int {
	size := 1
	for size < n {
		size *= 2
	}
	return size
}

// A recvQueue is the receive queue of a queue pair or an SRQ. The oldest buffer is taken
// first. For an SRQ, providertest requires this order too, though ibv_post_srq_recv(3)
// does not. A taken buffer occupies its entry until its completion is polled. The
// counters head and tail wrap.
type recvQueue struct {
	entries    []rqe // ring of posted buffers; grows up to depth
	head, tail uint32
	cqSpace
	most   uint32 // largest number of buffers so far that were posted, or taken and not polled
	depth  uint32
	maxSGE int
}

// An rqe is a posted receive buffer.
type rqe struct {
	id   uint64
	size uint32      // bytes of the memory, at most the largest uint32
	sges []verbs.SGE // memory of the buffer; a part of an array that all entries share
}

// initialRecvEntries is how many buffers a receive queue can hold at first. Programs
// often post far fewer buffers than the queue allows. Arbitrary.
const initialRecvEntries = 8

func newRecvQueue(maxWR, maxSGE int) recvQueue {
	q := recvQueue{depth: clampUint32(maxWR), maxSGE: maxSGE}
	if maxWR > 0 {
		q.resize(min(ceilPow2(maxWR), initialRecvEntries))
	}
	return q
}

// resize changes the number of entries, and keeps the posted buffers. The number is a
// power of two.
func (q *recvQueue) resize(size int) {
	old := *q
	q.entries = make([]rqe, size)
	sges := make([]verbs.SGE, size*q.maxSGE)
	for i := range q.entries {
		q.entries[i].sges = sges[i*q.maxSGE : i*q.maxSGE : (i+1)*q.maxSGE]
	}
	for i := q.head; i != q.tail; i++ {
		e, was := q.at(i), *old.at(i)
		was.sges = append(e.sges, was.sges...)
		*e = was
	}
}

func (q *recvQueue) at(i uint32) *rqe { return &q.entries[i&uint32(len(q.entries)-1)] }

// len returns how many posted buffers are not taken yet.
func (q *recvQueue) len() int { return int(q.tail - q.head) }

// post appends buffers and returns how many were accepted.
func (q *recvQueue) post(wrs []verbs.RecvWR) (n int, err error) {
	for n < len(wrs) && err == nil {
		if err = q.push(&wrs[n]); err == nil {
			n++
		}
	}
	q.most = max(q.most, q.tail-q.head+q.held)
	return n, err
}

func (q *recvQueue) push(wr *verbs.RecvWR) error {
	if len(wr.SGEs) > q.maxSGE {
		return &verbs.ParamError{Field: "receive SGEs", Value: int64(len(wr.SGEs)), Limit: int64(q.maxSGE)}
	}
	if q.tail-q.head+q.held >= q.depth {
		return q.fullError()
	}
	if q.len() == len(q.entries) {
		q.resize(2 * len(q.entries))
	}
	e := q.at(q.tail)
	e.id, e.size = wr.ID, sizeOf(wr.SGEs)
	e.sges = append(e.sges[:0], wr.SGEs...)
	q.tail++
	return nil
}

// fullError returns verbs.ErrQueueFull, or a *verbs.ParamError for a queue of length 0.
func (q *recvQueue) fullError() error {
	if q.depth > 0 {
		return verbs.ErrQueueFull
	}
	return &verbs.ParamError{Field: "receive WRs", Value: 1, Reason: "MaxRecvWR of the QP is 0"}
}

// peek returns the oldest buffer without taking it. If there is none, peek returns nil.
func (q *recvQueue) peek() *rqe {
	if q.head == q.tail {
		return nil
	}
	return q.at(q.head)
}

// pop takes the oldest buffer, and copies its description to dst. The slice dst.sges
// needs enough capacity. pop returns false if there is no buffer.
func (q *recvQueue) pop(dst *rqe) bool {
	e := q.peek()
	if e == nil {
		return false
	}
	dst.id, dst.size = e.id, e.size
	dst.sges = append(dst.sges[:0], e.sges...)
	q.head++
	q.held++
	return true
}

// sizeOf returns the bytes of the memory of sges, at most the largest uint32.
func sizeOf(sges []verbs.SGE) uint32 {
	var n uint64
	for i := range sges {
		n += uint64(sges[i].Length)
	}
	return uint32(min(n, math.MaxUint32))
}

// clampUint32 converts n to a uint32. A larger n becomes the largest uint32.
func clampUint32(n int) uint32 { return uint32(min(uint64(n), math.MaxUint32)) }
