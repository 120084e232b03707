package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// received takes a completed receive buffer; nil stands for a completion that
// fits none.
func (c *Conn) recvCompleted(wc *verbs.WC, b *Buffer) {
	if b == nil {
		c.beginClose(verbs.Wrap("poll CQ", verbs.ErrProtocol))
		return
	}
	if wc.Status != verbs.StatusSuccess {
		c.fail(wc, false)
		c.repost(b)
		c.scheduleAdvance()
		return
	}
	c.lastFromPeer, c.activeSinceCheck = c.loop.clock.now, true
	b.setMessage(wc)
	// The passive side may get data before it hears that it is established.
	if c.state < StateOpen {
		b.state = bufferHeld
		c.heldMessages.push(b)
		return
	}
	c.deliver(b)
}

// deliver shows one message to the application, and lets its buffer be filled
// again.
func (c *Conn) deliver(b *Buffer) {
	l := c.loop
	if c.discardMessages {
		l.stats.Discarded++
		c.repost(b)
		return
	}
	c.stats.Messages++
	c.stats.MessageBytes += uint64(b.length)
	b.state, l.currentMessage = bufferDelivered, b
	l.onMessage(c, b)
	l.currentMessage = nil
	if b.state == bufferDelivered {
		c.repost(b)
	}
}

// replace puts another buffer into the receive queue for b, which is kept; or
// remembers that b is owed to it.
func (c *Conn) replace(b *Buffer) {
	fresh, err := c.device.slab.get()
	if err != nil {
		b.refillFor = c
		return
	}
	c.repost(fresh)
}

// repost brings a buffer back to the receive queue, or to the slab when there
// is nothing more to be received. The queue is filled up at the end of the turn,
// or sooner if it runs low, so that a peer does not meet an empty one.
func (c *Conn) repost(b *Buffer) {
	switch {
	case c.device.shared != nil:
		c.device.stageShared(b)
	case c.state > StateDraining:
		c.device.slab.put(b)
	default:
		c.recvs.stage(b)
		c.markDirty()
		if c.recvs.staged() >= c.recvs.inFlight() {
			c.postRecvs()
		}
	}
}

func (c *Conn) postRecvs() {
	if c.recvs.staged() == 0 || c.state > StateDraining {
		return
	}
	doorbells, err := c.recvs.post(c.qp)
	c.loop.stats.RecvDoorbells += doorbells
	if err != nil {
		c.beginClose(err)
	}
}

// A bufferList is a list of buffers, first in first out.
type bufferList struct{ head, tail *Buffer }

func (q *bufferList) push(b *Buffer) {
	b.next = nil
	if q.head == nil {
		q.head = b
	} else {
		q.tail.next = b
	}
	q.tail = b
}

func (q *bufferList) pop() *Buffer {
	b := q.head
	if b != nil {
		q.head, b.next = b.next, nil
	}
	return b
}
