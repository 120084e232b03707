package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// A recvQueue is the receive queue of one connection: buffers complete in the
// order in which they were posted (IBTA vol. 1, 10.8.3). The numbers run
// freely, as in sendFlow.
type recvQueue struct {
	buffers []*Buffer
	wrs     []verbs.RecvWR
	mask    uint32

	tail, posted, head uint32
}

func newRecvQueue(depth int, key wrID) recvQueue {
	size := uint32(1)
	for size < uint32(depth) {
		size <<= 1
	}
	q := recvQueue{buffers: make([]*Buffer, size), wrs: make([]verbs.RecvWR, size), mask: size - 1}
	for i := range q.wrs {
		q.wrs[i].ID = uint64(key | wrID(i))
	}
	return q
}

func (q *recvQueue) inFlight() uint32 { return q.posted - q.tail }
func (q *recvQueue) staged() uint32   { return q.head - q.posted }

// stage adds a buffer, to be posted.
func (q *recvQueue) stage(b *Buffer) {
	slot := q.head & q.mask
	q.buffers[slot], q.wrs[slot].SGEs = b, b.sge[:]
	b.state = bufferPosted
	q.head++
}

// post hands what is staged to qp, and returns with how many doorbells.
func (q *recvQueue) post(qp verbs.QP) (doorbells uint64, err error) {
	for q.staged() > 0 {
		from := q.posted & q.mask
		to := min(from+q.staged(), q.mask+1)
		n, err := qp.PostRecv(q.wrs[from:to])
		q.posted += uint32(n)
		doorbells++
		if err != nil {
			return doorbells, err
		}
	}
	return doorbells, nil
}

// complete takes out the oldest buffer, which must be the one in slot; nil when
// it is not.
func (q *recvQueue) complete(slot uint32) *Buffer {
	if q.inFlight() == 0 || slot != q.tail&q.mask {
		return nil
	}
	return q.take()
}

// take takes out the oldest buffer, or returns nil.
func (q *recvQueue) take() *Buffer {
	if q.tail == q.head {
		return nil
	}
	slot := q.tail & q.mask
	b := q.buffers[slot]
	q.buffers[slot] = nil
	q.tail++
	if q.posted-q.tail > q.mask+1 { // it was staged only
		q.posted = q.tail
	}
	return b
}
