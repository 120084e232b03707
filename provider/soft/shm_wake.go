//go:build linux

package soft

import "github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"

// This file has the doorbells of the local path.

// armDoorbell asks the peer to ring the doorbell at its next slot, and if needed at its
// next acknowledgement. It returns false if there is work.
func (p *shmPeer) armDoorbell() bool {
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
	// This side stores own.WakeFor before it looks for slots. The peer publishes a slot
	// before it loads own.WakeFor. So this side sees the slot, or the peer rings, or
	// both.
	if p.in.Ready() || want == shm.WakeAll && shm.Ack(p.peer.Ack.Load()) != p.sent.lastAck {
		p.own.WakeFor.Store(shm.WakeNone)
		p.wakeFor = shm.WakeNone
		return false
	}
	p.wakeFor = want
	return true
}

// reserveRing makes sure that the doorbell's socket has room for one more byte. The peer
// writes at most one byte after each armDoorbell. Unread bytes do no harm: with EPOLLET,
// epoll reports only new bytes (epoll(7)). So this side does not read each byte at once.
// It reads when there may be as many bytes as doorbellBuf can hold, unless the descriptor
// of a region may be among them.
func (p *shmPeer) reserveRing() {
	if p.pendingRings++; p.pendingRings >= len(p.shard.doorbellBuf) && p.regions.asked == 0 {
		p.pendingRings = 0
		shm.DrainDoorbell(p.end.Doorbell, p.shard.doorbellBuf[:])
	}
}

// wake rings the doorbell of the peer, once, if the peer has asked for this kind of
// wake-up.
func (p *shmPeer) wake(kind shm.WakeLevel) {
	if p.peer.WakeFor.Load() >= kind && p.peer.WakeFor.Swap(shm.WakeNone) != shm.WakeNone {
		shm.RingDoorbell(p.end.Doorbell)
	}
}
