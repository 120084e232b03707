//go:build linux

package soft

import (
	"math"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A recvQueue is the receive queue of a queue pair or an SRQ. A taken buffer occupies
// its entry until the completion is polled. The counters head and tail wrap.
type recvQueue struct {
	entries    []rqe
	head, tail uint32
	cqSpace
	depth  uint32
	maxSGE int
	sges   []verbs.SGE
}

// An rqe is a posted receive buffer.
type rqe struct {
	id   uint64
	size uint32      // bytes of the memory, at most the largest uint32
	sges []verbs.SGE // memory of the buffer; a part of recvQueue.sges
}

func newRecvQueue(maxWR, maxSGE int) recvQueue {
	size := ceilPow2(maxWR)
	q := recvQueue{
		entries: make([]rqe, size),
		depth:   clampUint32(maxWR),
		maxSGE:  maxSGE,
		sges:    make([]verbs.SGE, size*maxSGE),
	}
	for i := range q.entries {
		q.entries[i].sges = q.sges[i*maxSGE : i*maxSGE : (i+1)*maxSGE]
	}
	return q
}

// len returns how many buffers are posted and not taken.
func (q *recvQueue) len() int { return int(q.tail - q.head) }

// post appends buffers and returns how many were accepted.
func (q *recvQueue) post(wrs []verbs.RecvWR) (int, error) {
	for i := range wrs {
		if err := q.push(&wrs[i]); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}

// push appends one buffer.
func (q *recvQueue) push(wr *verbs.RecvWR) error {
	if len(wr.SGEs) > q.maxSGE {
		return &verbs.ParamError{Field: "receive SGEs", Value: int64(len(wr.SGEs)), Limit: int64(q.maxSGE)}
	}
	if q.tail-q.head+q.held >= q.depth {
		return q.fullError()
	}
	e := &q.entries[q.tail&uint32(len(q.entries)-1)]
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

// peek returns the oldest buffer without taking it, or nil.
func (q *recvQueue) peek() *rqe {
	if q.head == q.tail {
		return nil
	}
	return &q.entries[q.head&uint32(len(q.entries)-1)]
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
