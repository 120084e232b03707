package reactor

import (
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A recvSide has the receives of a connection.
type recvSide struct {
	own    recvQueue     // receives of a connection that does not use the shared receive queue
	empty  emptyRecvs    // receives without buffers, if Conn.immediatesOnly is true
	lastAt time.Duration // time of the last receive, by the loop's clock

	hold     holdReason    // why received messages wait in held; noHoldReason if OnMessage gets them at once
	heldBack bool          // true if the mode of the queue pair is verbs.RecvPaused
	held     *heldMessages // nil before the first message has to wait
}

// inFlight returns the number of receives posted and not completed.
func (r *recvSide) inFlight() uint32 { return r.own.inFlight() + r.empty.inFlight }

// staged returns the number of receives that wait to be posted.
func (r *recvSide) staged() uint32 { return r.own.staged() + r.empty.staged }

// post posts the staged receives to qp. The first result is the number of calls of PostRecv.
// A connection has receives of one kind only.
func (r *recvSide) post(qp verbs.QP) (doorbells uint64, err error) {
	if r.empty.staged > 0 {
		return r.empty.post(qp)
	}
	return r.own.post(qp)
}

// A recvQueue is the receive queue of one connection. Buffers complete in the order of
// posting (IBTA vol. 1, 10.8.3). A buffer's slot is its running number modulo the number
// of slots.
type recvQueue struct {
	buffers []*Buffer      // buffers in the queue; the index is the slot
	wrs     []verbs.RecvWR // receive requests for the buffers; the index is the slot
	mask    uint32         // number of slots minus one

	tail   uint32 // running number of the oldest buffer in the queue
	posted uint32 // running number of the first buffer that is not posted yet
	head   uint32 // running number that the next buffer gets
}

// newRecvQueue makes an empty queue for depth buffers. The key is Conn.key.
func newRecvQueue(depth int, key wrID) recvQueue {
	size := uint32(1)
	for size < uint32(depth) {
		size <<= 1
	}
	q := recvQueue{buffers: make([]*Buffer, size), wrs: make([]verbs.RecvWR, size), mask: size - 1}
	for i := range q.wrs {
		q.wrs[i].ID = uint64(key | connBit | recvBit | wrID(i))
	}
	return q
}

// inFlight returns the number of buffers posted and not completed.
func (q *recvQueue) inFlight() uint32 { return q.posted - q.tail }

// staged returns the number of buffers that wait to be posted.
func (q *recvQueue) staged() uint32 { return q.head - q.posted }

// stage adds a buffer. The next call of post() posts it.
func (q *recvQueue) stage(b *Buffer) {
	slot := q.head & q.mask
	q.buffers[slot], q.wrs[slot].SGEs = b, b.sge[:]
	b.state = bufferPosted
	q.head++
}

// post posts the staged buffers to qp. The first result is the number of calls of
// PostRecv.
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

// complete removes and returns the buffer in the given slot. This must be the oldest
// posted buffer. Otherwise complete() returns nil.
func (q *recvQueue) complete(slot uint32) *Buffer {
	if q.inFlight() == 0 || slot != q.tail&q.mask {
		return nil
	}
	return q.take()
}

// take removes and returns the oldest buffer. It returns nil if the queue is empty.
func (q *recvQueue) take() *Buffer {
	if q.tail == q.head {
		return nil
	}
	slot := q.tail & q.mask
	b := q.buffers[slot]
	q.buffers[slot] = nil
	q.tail++
	// If the removed buffer was not posted yet, it must not be posted any more.
	if q.posted-q.tail > q.mask+1 {
		q.posted = q.tail
	}
	return b
}

// An emptyRecvs is the receive queue of a connection with the option ImmediatesOnly. Its
// receives have no buffers, so they are all alike.
type emptyRecvs struct {
	wrs      *[emptyRecvBatch]verbs.RecvWR // requests for one call of PostRecv, all with the same id
	inFlight uint32                        // number of requests posted and not completed
	staged   uint32                        // number of requests that wait to be posted
}

// emptyRecvBatch is the largest number of requests that are posted with one call of
// PostRecv. Arbitrary.
const emptyRecvBatch = 32

// newEmptyRecvs makes a queue with staged requests for all its places. The key is
// Conn.key.
func newEmptyRecvs(depth int, key wrID) emptyRecvs {
	q := emptyRecvs{wrs: new([emptyRecvBatch]verbs.RecvWR), staged: uint32(depth)}
	for i := range q.wrs {
		q.wrs[i].ID = uint64(key | connBit | recvBit)
	}
	return q
}

// post posts the staged requests to qp. The first result is the number of calls of
// PostRecv.
func (q *emptyRecvs) post(qp verbs.QP) (doorbells uint64, err error) {
	for q.staged > 0 && err == nil {
		var n int
		n, err = qp.PostRecv(q.wrs[:min(q.staged, emptyRecvBatch)])
		q.staged -= uint32(n)
		q.inFlight += uint32(n)
		doorbells++
	}
	return doorbells, err
}

// complete removes a posted request. It returns false if there is none.
func (q *emptyRecvs) complete() bool {
	if q.inFlight == 0 {
		return false
	}
	q.inFlight--
	return true
}

// emptyRecvCompleted handles the completion of a receive without a buffer.
func (c *Conn) emptyRecvCompleted(wc *verbs.WC) {
	if !c.recvs.empty.complete() {
		c.endWith(errUnknownCompletion)
		return
	}
	if wc.Status != verbs.StatusSuccess {
		c.fail(wc, false)
		c.scheduleStep()
		return
	}
	if c.recvs.hold == noHoldReason {
		c.stageEmptyRecv()
	}
	if wc.Flags&verbs.WCWithInv != 0 && !c.sends.windows.givenBack(wc.Imm) {
		c.endWith(errUnknownKey)
		return
	}
	if c.state < stateOpen {
		c.holdEmpty(wc)
		return
	}
	c.recvInline(wc, nil)
}

// holdEmpty keeps a message without bytes until OnOpen, in a buffer of the pool.
func (c *Conn) holdEmpty(wc *verbs.WC) {
	b, err := c.device.smallBuffer()
	if err != nil {
		c.endWith(err)
		return
	}
	c.recvs.lastAt = c.loop.clock.now
	b.setMessage(wc)
	c.setTime(b, wc.Time)
	b.state = bufferHeld
	c.opening.held.push(b)
}

// stageEmptyRecv stages a request in place of a completed one. It posts the staged
// requests when they are at least half of the queue.
func (c *Conn) stageEmptyRecv() {
	if c.state > stateDraining {
		return
	}
	c.recvs.empty.staged++
	c.markDirty()
	if c.recvs.empty.staged >= c.recvs.empty.inFlight {
		c.postRecvs()
	}
}
