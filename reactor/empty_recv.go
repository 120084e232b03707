package reactor

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An emptyRecvs is the receive queue of a connection with the option ImmediatesOnly. Its
// receives have no buffers, so they are all alike.
type emptyRecvs struct {
	wrs      []verbs.RecvWR // requests for one call of PostRecv, all with the same id
	inFlight uint32         // number of requests posted and not completed
	staged   uint32         // number of requests that wait to be posted
}

// emptyRecvBatch is the largest number of requests that are posted with one call of
// PostRecv. Arbitrary.
const emptyRecvBatch = 32

// newEmptyRecvs makes a queue with staged requests for all its places. The key is
// Conn.key.
func newEmptyRecvs(depth int, key wrID) emptyRecvs {
	q := emptyRecvs{wrs: make([]verbs.RecvWR, min(depth, emptyRecvBatch)), staged: uint32(depth)}
	for i := range q.wrs {
		q.wrs[i].ID = uint64(key | sendBit | emptyRecvBit)
	}
	return q
}

// post posts the staged requests to qp. The first result is the number of calls of
// PostRecv.
func (q *emptyRecvs) post(qp verbs.QP) (doorbells uint64, err error) {
	for q.staged > 0 && err == nil {
		var n int
		n, err = qp.PostRecv(q.wrs[:min(q.staged, uint32(len(q.wrs)))])
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
	if !c.emptyRecvs.complete() {
		c.beginClose(operr.Wrap("poll CQ", verbs.ErrProtocol))
		return
	}
	if wc.Status != verbs.StatusSuccess {
		c.fail(wc, false)
		c.scheduleAdvance()
		return
	}
	c.stageEmptyRecv()
	if wc.Flags&verbs.WCWithInv != 0 && !c.givenBack(wc.Imm) {
		c.beginClose(operr.Wrap("poll CQ", verbs.ErrProtocol))
		return
	}
	if c.state < stateOpen {
		c.holdEmpty(wc)
		return
	}
	c.recvInline(wc, nil)
}

// holdEmpty keeps a message without bytes until OnOpen, in a buffer of the slab.
func (c *Conn) holdEmpty(wc *verbs.WC) {
	b, err := c.device.slab.get()
	if err != nil {
		c.beginClose(err)
		return
	}
	c.liveness.received(c.loop.clock.now)
	b.setMessage(wc)
	b.state = bufferHeld
	c.heldMessages.push(b)
}

// stageEmptyRecv stages a request in place of a completed one. It posts the staged
// requests when they are at least half of the queue.
func (c *Conn) stageEmptyRecv() {
	if c.state > stateDraining {
		return
	}
	c.emptyRecvs.staged++
	c.markDirty()
	if c.emptyRecvs.staged >= c.emptyRecvs.inFlight {
		c.postRecvs()
	}
}
