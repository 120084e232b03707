//go:build linux

package soft

import "github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"

// This file fills the ring on which a shard sends.

// reserve reserves a slot; see shm.Producer.Reserve. If the ring is full, it first
// processes acknowledgements.
func (p *shmPeer) reserve(want uint32) (dst []byte, inArea, ok bool) {
	dst, inArea, ok = p.out.Reserve(want)
	if ok || !p.freeSlots() {
		return dst, inArea, ok
	}
	return p.out.Reserve(want)
}

// freeSlots frees consumed slots. It returns false if there are none.
func (p *shmPeer) freeSlots() bool {
	ack := shm.Ack(p.peer.Ack.Load())
	if ack.Consumed() == p.out.Freed || p.state != sharingOpen {
		return false
	}
	if !p.out.Free(ack.Consumed()) {
		p.protocolError()
		return false
	}
	return true
}

// put fills the reserved slot. Some slots are published later; see publishEvery.
func (p *shmPeer) put(s *shm.Slot) {
	p.out.Put(s)
	p.sent.seq++
	p.wakeDue = true
	if s.Flags&shm.FlagArea != 0 || p.out.Unpublished == publishEvery {
		// The peer can read this slot while the next one is written.
		p.out.PublishFirst()
	}
}

// flush publishes all slots, and wakes the peer once for all slots published since the
// last call.
func (p *shmPeer) flush() {
	if p.wakeDue {
		p.wakeDue = false
		p.out.PublishFirst()
		p.wake(shm.WakeSlots)
	}
}

// notify sends a slot without payload. If the ring is full, the slot waits.
func (p *shmPeer) notify(s shm.Slot) {
	switch {
	case p.state != sharingOpen:
	case p.notices.len() == maxNotices:
		p.protocolError()
	default:
		p.notices.push(s)
		p.sendNotices()
		p.flush()
	}
}

// sendNotices sends the notices, and returns false if the ring has no room for all. The
// peer must consume them before it uses the next acknowledgement.
func (p *shmPeer) sendNotices() bool {
	before := p.out.Tail
	for p.notices.len() > 0 {
		if _, _, ok := p.reserve(0); !ok {
			break
		}
		p.put(p.notices.pop())
	}
	if p.out.Tail != before {
		p.out.PublishFirst()
		p.own.Refusals.Store(p.out.Tail)
	}
	return p.notices.len() == 0
}

// block makes a connection wait for room in the ring.
func (p *shmPeer) block(c *shmConn) {
	if !c.blocked {
		c.blocked = true
		p.blocked = append(p.blocked, c)
	}
}

// unblock ends the waiting of a connection.
func (p *shmPeer) unblock(c *shmConn) {
	if !c.blocked {
		return
	}
	c.blocked = false
	for i, b := range p.blocked {
		if b == c {
			p.blocked = append(p.blocked[:i], p.blocked[i+1:]...)
			return
		}
	}
}

// sendWaiting sends what waits for room: notices first, then the blocked connections in
// turn.
func (p *shmPeer) sendWaiting() {
	defer p.flush()
	if !p.sendNotices() {
		return
	}
	for n := len(p.blocked); n > 0 && len(p.blocked) > 0; n-- {
		c := p.blocked[0]
		p.unblock(c)
		c.send()
		if c.blocked {
			return
		}
	}
}
