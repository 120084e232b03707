//go:build linux

package shmpath

import "github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"

// This file has the doorbells of the local path.

// Arm implements qp.Poller. It asks the peer to ring the doorbell at its next slot. If this side waits
// for acknowledgements, it also asks for a ring at the next acknowledgement. If there is
// work already, arm returns false.
func (p *peer) Arm() bool {
	if p.state != sharingOpen {
		return false
	}
	want := shm.WakeSlots
	if p.awaitsAck() {
		want = shm.WakeAll
	}
	if p.acks.unacked > 0 {
		p.acknowledge()
	}
	if p.wakeFor == want {
		return true
	}
	p.reserveRing()
	p.own.WakeFor.Store(want)
	// This side first stores own.WakeFor, and then looks for slots. The peer first
	// publishes a slot, and then loads own.WakeFor. So either this side sees the slot, or
	// the peer rings.
	if p.in.Ready() || want == shm.WakeAll && shm.Ack(p.peer.Ack.Load()) != p.sent.lastAck {
		p.own.WakeFor.Store(shm.WakeNone)
		p.wakeFor = shm.WakeNone
		return false
	}
	p.wakeFor = want
	return true
}

// reserveRing makes sure that the doorbell's socket has room for one more byte. The peer
// writes at most one byte after each call of arm. reserveRing reads the bytes
// only when there may be enough of them to fill doorbellBuf. Fewer unread bytes do no
// harm, because with EPOLLET epoll reports only new bytes (epoll(7)). The peer sends the
// descriptor of a region with such a byte. While this side waits for a descriptor,
// reserveRing reads nothing.
func (p *peer) reserveRing() {
	if p.pendingRings++; p.pendingRings >= len(p.all.doorbellBuf) && p.regions.asked == 0 {
		p.pendingRings = 0
		shm.DrainDoorbell(p.end.Doorbell, p.all.doorbellBuf[:])
	}
}

// wake rings the doorbell of the peer if the peer has asked for this kind of wake-up.
// After a ring, the peer must ask again.
func (p *peer) wake(kind shm.WakeLevel) {
	if p.peer.WakeFor.Load() >= kind && p.peer.WakeFor.Swap(shm.WakeNone) != shm.WakeNone {
		shm.RingDoorbell(p.end.Doorbell)
	}
}
