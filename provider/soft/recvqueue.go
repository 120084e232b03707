//go:build linux

package soft

import "github.com/rdmaloop/rdmaloop/verbs"

// A recvQueue holds posted receive buffers in order, for a queue pair or an SRQ.
// Counters wrap. A buffer that a message has taken occupies its place until its
// completion is polled.
type recvQueue struct {
	entries    []rqe
	head, tail uint32
	cqSpace
	depth  uint32
	maxSGE int
	sges   []verbs.SGE
}

type rqe struct {
	id   uint64
	sges []verbs.SGE // on storage of the queue
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

func (q *recvQueue) push(wr *verbs.RecvWR) error {
	if len(wr.SGEs) > q.maxSGE {
		return &verbs.ParamError{Field: "receive SGEs", Value: int64(len(wr.SGEs)), Limit: int64(q.maxSGE)}
	}
	if q.tail-q.head+q.held >= q.depth {
		return verbs.ErrQueueFull
	}
	e := &q.entries[q.tail&uint32(len(q.entries)-1)]
	e.id = wr.ID
	e.sges = append(e.sges[:0], wr.SGEs...)
	q.tail++
	return nil
}

// peek shows the oldest buffer, or nil.
func (q *recvQueue) peek() *rqe {
	if q.head == q.tail {
		return nil
	}
	return &q.entries[q.head&uint32(len(q.entries)-1)]
}

// pop takes the oldest buffer, copied into into, whose storage fits maxSGE
// entries.
func (q *recvQueue) pop(into *rqe) bool {
	e := q.peek()
	if e == nil {
		return false
	}
	into.id = e.id
	into.sges = append(into.sges[:0], e.sges...)
	q.head++
	q.held++
	return true
}

// capacity is how many bytes a buffer holds.
func (e *rqe) capacity() uint64 {
	var n uint64
	for i := range e.sges {
		n += uint64(e.sges[i].Length)
	}
	return n
}
