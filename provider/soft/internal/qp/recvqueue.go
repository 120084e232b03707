//go:build linux

package qp

import (
	"math"

	"github.com/rdmaloop/rdmaloop/verbs"
)

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
