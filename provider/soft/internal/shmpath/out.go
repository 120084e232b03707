//go:build linux

package shmpath

import (
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// This file writes slots into the ring on which a shard sends.

// reserveRequest reserves a slot for a request. It returns false if the ring is full or
// tooManyPending returns true.
func (p *peer) reserveRequest(want uint32) (dst []byte, inArea, ok bool) {
	if p.tooManyPending() {
		return nil, false, false
	}
	return p.reserve(want)
}

// tooManyPending reports whether the peer has consumed many slots without executing
// their requests. Without this limit, sent.awaited could grow without end.
func (p *peer) tooManyPending() bool {
	return p.sent.seq-p.sent.executed >= uint64(maxPending*p.out.Len())
}

// reserve reserves a slot; see shm.Producer.Reserve. If the ring is full, it first frees
// consumed slots.
func (p *peer) reserve(want uint32) (dst []byte, inArea, ok bool) {
	dst, inArea, ok = p.out.Reserve(want)
	if ok || !p.freeSlots() {
		return dst, inArea, ok
	}
	return p.out.Reserve(want)
}

// freeSlots frees consumed slots. It returns false if there are none.
func (p *peer) freeSlots() bool {
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

// put fills the reserved slot. Slots are published in groups; see publishEvery.
func (p *peer) put(s *shm.Slot) {
	p.out.Put(s)
	p.sent.seq++
	p.wakeDue = true
	if s.Flags&shm.FlagArea != 0 || p.out.Unpublished == publishEvery {
		// The peer reads this slot while this side writes the next one.
		p.out.PublishFirst()
	}
}

// flush publishes all slots. It wakes the peer once for all slots since the last flush.
func (p *peer) flush() {
	if p.wakeDue {
		p.wakeDue = false
		p.out.PublishFirst()
		p.wake(shm.WakeSlots)
	}
}

// notify sends a notice, and returns its number. If the ring is full, the notice waits.
func (p *peer) notify(n notice) (number uint64) {
	if p.state != sharingOpen {
		return 0
	}
	p.activate() // Polling finds out when the ring has room.
	number = p.notices.push(n)
	p.sendNotices()
	p.flush()
	return number
}

// sendNotices sends the waiting notices. It returns false if the ring has no room for
// all of them. The peer must consume the notices before it uses the next
// acknowledgement.
func (p *peer) sendNotices() bool {
	before := p.out.Tail
	for p.notices.len() > 0 {
		if _, _, ok := p.reserve(0); !ok {
			break
		}
		n := p.notices.pop()
		p.put(&shm.Slot{Dest: n.to, Fragment: fragment.Fragment{Op: n.op, Imm: n.imm, Addr: uint64(n.value)}})
	}
	if p.out.Tail != before {
		p.out.PublishFirst()
		p.own.Refusals.Store(p.out.Tail)
		if p.notices.len()+p.unsettled == 0 && p.acks.executed != p.in.Head && !p.receiving {
			// Before these notices, slots with refused requests could not be acknowledged.
			p.acknowledge()
		}
	}
	return p.notices.len() == 0
}

// block adds a connection to those that wait for room in the ring.
func (p *peer) block(c *Conn) {
	if !c.blocked {
		c.blocked = true
		p.blocked.push(c)
	}
}

func (p *peer) unblock(c *Conn) {
	if !c.blocked {
		return
	}
	c.blocked = false
	p.blocked.remove(c)
}

// sendWaiting sends what has waited for room. The notices are first, and then the
// blocked connections have their turns.
func (p *peer) sendWaiting() {
	defer p.flush()
	if !p.sendNotices() {
		return
	}
	for n := p.blocked.len(); n > 0 && p.blocked.len() > 0; n-- {
		c := p.blocked.pop()
		c.blocked = false
		c.send()
		if c.blocked {
			return
		}
	}
}
