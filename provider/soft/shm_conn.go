//go:build linux

package soft

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// receiveBudget is how many slots a connection consumes in one call of drive. Arbitrary.
const receiveBudget = 64

// A shmConn is the local path of an RC queue pair: shared memory with a ring for
// requests and a ring for responses in each direction. It belongs to the shard.
//
// The shard polls active and idle connections. The peers of other connections ring the
// doorbell. Before the owner may sleep, all peers are asked to ring.
type shmConn struct {
	q     *qp
	shard *shard
	end   *localEnd
	own   *shm.ControlBlock // control block that this side writes
	peer  *shm.ControlBlock // control block that the peer writes; the peer may be hostile

	requestsOut  shm.Producer
	requestsIn   shm.Consumer
	responsesOut shm.Producer // data of READs and results of atomics for the peer
	responsesIn  shm.Consumer // data of READs and results of atomics from the peer

	sent shmSent // positions in requestsOut
	acks shmAcks // acknowledgements of requestsIn

	serving serveState
	// value of peer.Resend at the last RNR NAK; the peer increments it to repeat the
	// request
	resendSeen uint32
	readLeft   memoryRange // memory of the current READ that is still to be sent

	// true if slots were published and the peer was not woken yet
	wakeDue bool
	wakeFor shm.WakeLevel // last value stored in own.WakeFor
	// The doorbell has no more unread bytes than this. There may be fewer.
	pendingRings int
	schedule     pollEntry
}

// newSHMConn makes the path of a queue pair, and takes over the end if it succeeds.
func newSHMConn(q *qp, end *localEnd) (*shmConn, error) {
	c := &shmConn{q: q, shard: q.shard, end: end}
	var out, rout, in, rin shm.Ring
	c.own, out, rout = end.Segment.Carve(end.Side)
	c.peer, in, rin = end.Segment.Carve(1 - end.Side)
	c.requestsOut, c.responsesOut = shm.NewProducer(out), shm.NewProducer(rout)
	c.requestsIn, c.responsesIn = shm.Consumer{Ring: in}, shm.Consumer{Ring: rin}
	if err := c.shard.epoll.Add(end.Doorbell, unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLET, c); err != nil {
		return nil, err
	}
	c.own.State.Store(shm.SideActive)
	c.shard.polls.activate(c)
	return c, nil
}

// OnReady is called when the peer has rung or closed the doorbell.
func (c *shmConn) OnReady(_ int, events uint32) {
	c.wakeFor = shm.WakeNone
	if c.isServing() {
		c.shard.polls.activate(c)
	}
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.onHangUp()
	}
}

// isServing reports whether the queue pair processes the peer's requests.
func (c *shmConn) isServing() bool { return c.q.isServing() }

// poll processes slots of the peer, and sends what can be sent. It returns false without
// work. After idleAfter calls without work, the connection becomes idle.
func (c *shmConn) poll() bool {
	polls := &c.shard.polls
	if polls.rests(c) && c.isIdle() {
		polls.makeIdle(c)
		return false
	}
	work := (c.serving != serveNext || c.requestsIn.Ready()) && c.receive()
	if c.q.awaitsResponse() {
		work = c.takeResponses() || work
	}
	q := c.q
	if q.awaitsAck() || polls.acks() {
		work = c.takeAcks() || work
	}
	if work {
		if q.hasUnsent() && c.isServing() {
			// A request may have waited for a fence, for MaxRdAtomic, or for room.
			c.transmit()
		}
		polls.worked(c)
		if c.wakeFor != shm.WakeNone {
			c.wakeFor = shm.WakeNone
			c.own.WakeFor.Store(shm.WakeNone)
		}
	} else if c.acks.unacked > 0 {
		c.acknowledge()
	}
	return work
}

// isIdle reports whether the connection has no work. Unacknowledged requests are work,
// because the peer may not ring for their acknowledgement.
func (c *shmConn) isIdle() bool {
	return !c.requestsIn.Ready() && c.acks.unacked == 0 && c.q.sendQueueEmpty() && !c.serving.inRead()
}

// armDoorbell asks the peer to ring the doorbell at its next slot, and if needed at its
// next acknowledgement. It returns false if there is work.
func (c *shmConn) armDoorbell() bool {
	want := shm.WakeSlots
	if c.q.awaitsAck() {
		want = shm.WakeAll
	}
	if c.acks.unacked > 0 {
		c.acknowledge()
	}
	if c.wakeFor == want {
		return true
	}
	c.reserveRing()
	c.own.WakeFor.Store(want)
	// This side stores own.WakeFor before it looks for slots. The peer publishes a slot
	// before it loads own.WakeFor. So this side sees the slot, or the peer rings, or
	// both.
	if c.workMissed(want) {
		c.own.WakeFor.Store(shm.WakeNone)
		c.wakeFor = shm.WakeNone
		return false
	}
	c.wakeFor = want
	c.updatePeerTimer()
	return true
}

// reserveRing makes sure that the doorbell's socket has room for one more byte. The peer
// writes at most one byte after each armDoorbell. Unread bytes do no harm: with EPOLLET,
// epoll reports only new bytes (epoll(7)). So this side does not read each byte at once.
// It reads when there may be as many bytes as doorbellBuf can hold.
func (c *shmConn) reserveRing() {
	if c.pendingRings++; c.pendingRings == len(c.shard.doorbellBuf) {
		c.pendingRings = 0
		shm.DrainDoorbell(c.end.Doorbell, c.shard.doorbellBuf[:])
	}
}

// workMissed reports whether the peer has published something before it could see the
// new own.WakeFor.
func (c *shmConn) workMissed(want shm.WakeLevel) bool {
	ack := shm.Ack(c.peer.Ack.Load())
	return c.requestMissed() || c.q.awaitsResponse() && c.responsesIn.Ready() ||
		want == shm.WakeAll && ack != c.sent.lastAck || ack.NAKs() != c.sent.lastAck.NAKs()
}

// wake rings the doorbell of the peer, once, if the peer has asked for this kind of
// wake-up.
func (c *shmConn) wake(kind shm.WakeLevel) {
	if c.peer.WakeFor.Load() >= kind && c.peer.WakeFor.Swap(shm.WakeNone) != shm.WakeNone {
		shm.RingDoorbell(c.end.Doorbell)
	}
}

// stopResponding implements path. It publishes shm.SideStopped, which starts the
// response timer of a peer with outstanding requests; see updatePeerTimer.
func (c *shmConn) stopResponding() {
	c.acknowledge()
	c.own.State.Store(shm.SideStopped)
	c.wake(shm.WakeSlots)
	c.shard.polls.remove(c)
}

// ready implements path. The connection is usable already.
func (c *shmConn) ready() error { return nil }

// reset implements path. It ends the connection; the next RTR makes a new one.
func (c *shmConn) reset() (usable bool) {
	c.stopResponding()
	c.detach()
	return false
}

// detach implements path. It releases this side's end, and an end that was offered but
// not taken.
func (c *shmConn) detach() {
	c.shard.polls.remove(c)
	c.shard.epoll.Remove(c.end.Doorbell)
	c.q.dev.bindings.drop(c.q.num, c.q.attributes().DestQPN)
	c.end.Release()
}

// rebind implements path. It returns a new shmConn with the offered end, or releases
// that end.
func (c *shmConn) rebind(end *localEnd) (moved path, taken bool, err error) {
	if !c.end.provisional || !c.q.dev.bindings.drop(c.q.num, c.q.attributes().DestQPN) {
		end.Release()
		return nil, true, nil
	}
	to, err := newSHMConn(c.q, end)
	if err != nil {
		end.Release()
		return nil, true, err
	}
	c.detach()
	return to, true, nil
}

// peerGone implements path. It acts as if the peer had closed the doorbell.
func (c *shmConn) peerGone(end *shm.End) {
	if c.end.End == end {
		c.onHangUp()
	}
}

// receiveAt implements path. Only UD queue pairs use this method, so it does nothing
// here.
func (*shmConn) receiveAt(netip.Addr) error { return nil }

// onHangUp is called when the peer has closed the doorbell. It first processes what the
// peer has published.
//
//   - If the peer has published shm.SideStopped, it has closed its queue pair.
//     Outstanding requests fail later.
//   - Otherwise the peer's process has ended, and the queue pair fails at once.
func (c *shmConn) onHangUp() {
	c.shard.epoll.Remove(c.end.Doorbell)
	for range c.requestsIn.Len()/receiveBudget + 1 {
		if !c.receive() {
			break
		}
	}
	c.takeAcks()
	if c.isServing() && c.peer.State.Load() != shm.SideStopped {
		c.q.onRetriesExceeded()
	}
}

// updatePeerTimer starts the response timer if the peer does not process outstanding
// requests. Otherwise it stops the timer.
func (c *shmConn) updatePeerTimer() {
	if !c.q.outstanding() {
		return
	}
	if c.peer.State.Load() != shm.SideActive {
		c.q.onPeerStopped()
	} else {
		c.q.onPeerActive()
	}
}

// protocolError fails the queue pair after an invalid value in shared memory.
func (c *shmConn) protocolError() {
	c.q.onInvalidMemory()
}
