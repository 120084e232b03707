//go:build linux

package soft

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// receiveBudget is how many slots one connection consumes in one call of drive. It is
// arbitrary.
const receiveBudget = 64

// A shmConn is the local path of an RC queue pair: a connection through shared memory
// with a ring for requests and a ring for responses in each direction. It belongs to the
// shard.
//
// The shard polls the connections on its active list and on its idle list. Other
// connections are parked: the peer rings the doorbell when it has published slots.
// Before the owner may go to sleep, the shard asks the peers of all connections to ring
// the doorbell. Connections that stay on a list are no exception.
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
	// value of peer.Resend when the last RNR NAK was sent; the peer increments Resend to
	// repeat the request
	resendSeen uint32
	readLeft   memoryRange // memory of the peer's current READ that was not sent yet

	// true if slots were published for which the peer was not woken yet
	wakeDue bool
	wakeFor shm.WakeLevel // last value that this side has stored in own.WakeFor
	// largest number of unread bytes that the peer may have written to the doorbell
	pendingRings int
	schedule     pollEntry
}

// newSHMConn makes the path of a queue pair from its end of a connection. If it succeeds,
// the path owns the end.
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

// OnReady is called when the peer has rung the doorbell, or has closed its end of the
// doorbell.
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

// poll processes what the peer has published, within receiveBudget, and sends what can
// be sent. It reports whether there was any work. A connection without work during more
// than idleAfter calls of drive moves to the shard's idle list.
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
			// A request may have waited for a fence, for MaxRdAtomic, or for room in the
			// ring.
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

// isIdle reports whether the connection has no work. It takes only a few loads from
// memory. A connection with an unacknowledged request is not idle, because the peer does
// not ring the doorbell for the acknowledgement of an unsignaled request.
func (c *shmConn) isIdle() bool {
	return !c.requestsIn.Ready() && c.acks.unacked == 0 && c.q.sendQueueEmpty() && !c.serving.inRead()
}

// armDoorbell asks the peer to ring the doorbell at its next slot, and also at its next
// acknowledgement if this side waits for one. It returns false if the connection already
// has work. In that case the connection has to be polled.
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
	// This side stores own.WakeFor before it looks for slots, and the peer publishes a
	// slot before it loads own.WakeFor. So this side sees the slot, or the peer sees that
	// it has to ring the doorbell, or both.
	if c.workMissed(want) {
		c.own.WakeFor.Store(shm.WakeNone)
		c.wakeFor = shm.WakeNone
		return false
	}
	c.wakeFor = want
	c.updatePeerTimer()
	return true
}

// reserveRing makes sure that the doorbell's socket has room for one more byte of the
// peer. Each ring of the doorbell is one byte. The peer rings at most once after each
// call of armDoorbell. epoll watches the doorbell edge-triggered (epoll(7)), so the byte
// need not be read after each ring. But the socket would fill up if the bytes were never
// read. So reserveRing counts the bytes that the peer may have written, and reads them
// when their number reaches the size of doorbellBuf.
func (c *shmConn) reserveRing() {
	if c.pendingRings++; c.pendingRings == len(c.shard.doorbellBuf) {
		c.pendingRings = 0
		shm.DrainDoorbell(c.end.Doorbell, c.shard.doorbellBuf[:])
	}
}

// workMissed reports whether the peer has published something that this side has not
// processed. The peer perhaps published it before it could see the new value of
// own.WakeFor, and then it has not rung the doorbell.
func (c *shmConn) workMissed(want shm.WakeLevel) bool {
	ack := shm.Ack(c.peer.Ack.Load())
	return c.requestMissed() || c.q.awaitsResponse() && c.responsesIn.Ready() ||
		want == shm.WakeAll && ack != c.sent.lastAck || ack.NAKs() != c.sent.lastAck.NAKs()
}

// wake rings the doorbell of the peer if the peer has asked for wake-ups of the given
// kind. It also withdraws this request in the peer's control block, so that the doorbell
// rings only once.
func (c *shmConn) wake(kind shm.WakeLevel) {
	if c.peer.WakeFor.Load() >= kind && c.peer.WakeFor.Swap(shm.WakeNone) != shm.WakeNone {
		shm.RingDoorbell(c.end.Doorbell)
	}
}

// stopResponding implements path. It publishes the state shm.SideStopped. A peer with an
// outstanding request then starts its response timer; see updatePeerTimer.
func (c *shmConn) stopResponding() {
	c.acknowledge()
	c.own.State.Store(shm.SideStopped)
	c.wake(shm.WakeSlots)
	c.shard.polls.remove(c)
}

// ready implements path. It does nothing, because newSHMConn has made the connection
// usable.
func (c *shmConn) ready() error { return nil }

// reset implements path. It ends the use of the connection, and returns false. When the
// queue pair enters RTR again, it gets a new connection.
func (c *shmConn) reset() (usable bool) {
	c.stopResponding()
	c.detach()
	return false
}

// detach implements path. It releases this side's end. If this side made both ends and
// the peer has not taken the other end, detach releases the other end too.
func (c *shmConn) detach() {
	c.shard.polls.remove(c)
	c.shard.epoll.Remove(c.end.Doorbell)
	c.q.dev.bindings.drop(c.q.num, c.q.attributes().DestQPN)
	c.end.Release()
}

// rebind implements path. If it replaces the path, the result moved is a new shmConn
// with the offered end, and this shmConn is detached. Otherwise the offered end is
// released.
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

// peerGone implements path. It does the same as when the peer closes its end of the
// doorbell.
func (c *shmConn) peerGone(end *shm.End) {
	if c.end.End == end {
		c.onHangUp()
	}
}

// receiveAt implements path. It does nothing, because it is called for UD queue pairs
// only.
func (*shmConn) receiveAt(netip.Addr) error { return nil }

// onHangUp is called when the peer's end of the doorbell was closed. It first executes
// the requests that are complete in the ring, at most as many as the ring holds, and
// processes the acknowledgements. If the peer has closed its queue pair, it has
// published shm.SideStopped before. In this case outstanding requests fail later: when
// the response timer fires, or when connection management ends the connection. If the
// peer has not published shm.SideStopped, its process has ended without closing the queue
// pair, and this queue pair enters the error state at once.
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

// updatePeerTimer starts the response timer if requests are outstanding and the peer does
// not process them. It stops the timer if the peer is active.
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

// protocolError moves the queue pair to the error state, after the peer has written an
// invalid value to shared memory.
func (c *shmConn) protocolError() {
	c.q.onInvalidMemory()
}
