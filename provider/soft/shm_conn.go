//go:build linux

package soft

import (
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// receiveBudget is how many slots one link consumes in one drive.
	receiveBudget = 64
	// ackEvery is after how many drives acknowledgements are looked at that
	// nobody waits for.
	ackEvery = 64
)

// link is the local path: it carries the requests and responses of one queue
// pair through shared memory. The control block ctl is written by this side,
// peer by the other, which may be hostile.
type shmConn struct {
	q    *qp
	s    *shard
	end  *shmEnd
	own  *controlBlock
	peer *controlBlock

	requestsOut  producer // own requests
	requestsIn   consumer // the peer's requests
	responsesOut producer // own responses
	responsesIn  consumer // the peer's responses

	seq              uint64 // slots of out published, which path sequences count
	released         uint64 // slots of out given back
	lastAck          uint64 // the peer's ack as last handled
	unacked          uint32 // slots of in consumed and not yet acknowledged
	ackRequested     bool   // the peer waits for the acknowledgement
	nakCount         uint32 // negative answers given
	syndrome         uint8  // of the last one
	responsesBlocked bool   // there was no room for a response
	awaitsRetry      bool   // the slot at hand was answered with RNR NAK
	resendSeen       uint32 // the peer's resend count at that time
	wakeDue          bool   // slots were published since the peer's bell was considered
	parked           wakeLevel
	pendingRings     int         // rings that may lie on the bell
	pollList         *[]*shmConn // of the shard, that it is on; nil when it is left to its bell
	pollIndex        int         // in that
	lastWork         uint32

	readLeft       memoryRange // what is left of the READ whose response is under way
	readInProgress bool
}

// newSHMConn attaches a queue pair to its end of a connection.
func newSHMConn(q *qp, end *shmEnd) (*shmConn, error) {
	l := &shmConn{q: q, s: q.shard, end: end}
	var out, rout, in, rin ring
	l.own, out, rout = end.seg.carve(end.side)
	l.peer, in, rin = end.seg.carve(1 - end.side)
	l.requestsOut, l.responsesOut = newProducer(out), newProducer(rout)
	l.requestsIn, l.responsesIn = consumer{ring: in}, consumer{ring: rin}
	if err := l.s.watch(end.doorbell, unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLET, l); err != nil {
		return nil, err
	}
	l.own.state.Store(sideActive)
	l.s.makeActive(l)
	return l, nil
}

// onReady is called when the bell was rung, or hung up.
func (c *shmConn) onReady(_ int, events uint32) {
	c.parked = wakeNone
	if c.isServing() {
		c.s.makeActive(c)
	}
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.onHangUp()
	}
}

// alive reports whether the queue pair serves and sends.
func (c *shmConn) isServing() bool { return c.q.isServing() }

// poll does what there is to do, and reports whether there was anything.
func (c *shmConn) poll() bool {
	if c.s.drives-c.lastWork > idleAfter && c.isIdle() {
		c.s.setPollList(c, &c.s.idle)
		return false
	}
	work := c.receive()
	if c.q.reads > 0 {
		work = c.takeResponses() || work
	}
	q := c.q
	if q.signaledCount > 0 || q.sq.next != q.sq.tail || c.s.drives%ackEvery == 0 {
		work = c.takeAcks() || work
	}
	if work {
		if q.sq.next != q.sq.tail && c.isServing() {
			c.transmit() // a fence, the depth or the room may have held it back
		}
		c.lastWork = c.s.drives
		if c.parked != wakeNone {
			c.parked = wakeNone
			c.own.parked.Store(wakeNone)
		}
	} else if c.unacked > 0 {
		c.acknowledge()
	}
	return work
}

// rests reports whether there is nothing to do, with a few loads. While requests
// are unanswered it does not, for answers that nobody waits for come silently.
func (c *shmConn) isIdle() bool {
	sq := &c.q.sq
	return !c.requestsIn.ready() && c.unacked == 0 && sq.done == sq.tail && !c.readInProgress
}

// park asks the peer to ring the bell, and reports whether it is asleep then:
// false when something came in between, which leaves the link to be polled.
func (c *shmConn) park() bool {
	want := wakeSlots
	if c.q.signaledCount > 0 || c.q.sq.next != c.q.sq.tail || c.q.state == verbs.StateSQD {
		want = wakeAll
	}
	if c.unacked > 0 {
		c.acknowledge()
	}
	if c.parked == want {
		return true
	}
	c.reserveRing()
	c.own.parked.Store(want)
	// Both sides store first and load then, so that one of them sees the other.
	if c.workMissed(want) {
		c.own.parked.Store(wakeNone)
		c.parked = wakeNone
		return false
	}
	c.parked = want
	c.updatePeerTimer()
	return true
}

// reserveRing makes sure that there is room for one more ring on the bell. It is
// watched edge-triggered, and each ring is an edge, so that nothing has to be read
// when it is rung; but what is never read fills up. There is at most one ring for
// each time of parking.
func (c *shmConn) reserveRing() {
	if c.pendingRings++; c.pendingRings == len(c.s.doorbellBuf) {
		c.pendingRings = 0
		blockDoorbell(c.end.doorbell, c.s.doorbellBuf[:])
	}
}

// missed reports whether something happened that the peer may not have rung
// the bell for.
func (c *shmConn) workMissed(want wakeLevel) bool {
	ack := c.peer.ack.Load()
	switch {
	case c.awaitsRetry:
		if c.peer.resend.Load() != c.resendSeen {
			return true
		}
	case c.responsesBlocked:
		if c.peer.responses.Load() != c.responsesOut.freed {
			return true
		}
	case c.requestsIn.ready():
		return true
	}
	return c.q.reads > 0 && c.responsesIn.ready() ||
		want == wakeAll && ack != c.lastAck || ack>>40 != c.lastAck>>40
}

// wake rings the peer's bell if it is parked for kind.
func (c *shmConn) wake(kind wakeLevel) {
	if c.peer.parked.Load() >= kind && c.peer.parked.Swap(wakeNone) != wakeNone {
		ringDoorbell(c.end.doorbell)
	}
}

// silence: see path. The peer finds out when it waits for an answer.
func (c *shmConn) stopResponding() {
	c.acknowledge()
	c.own.state.Store(sideSilent)
	c.wake(wakeSlots)
	c.s.setPollList(c, nil)
}

// detach: see path.
func (c *shmConn) detach() {
	c.s.setPollList(c, nil)
	c.s.unwatch(c.end.doorbell)
	c.q.dev.dropEnd(c.q.num, c.q.attr.DestQPN)
	c.end.release()
}

// onHangUp: the other end of the bell is closed, because the peer has left in
// order, or because its process is gone. What it had sent completely still counts,
// and no more than its ring holds. A peer that left in order is silent; what it
// owes fails when the retries would have ended, or when connection management
// hears of it.
func (c *shmConn) onHangUp() {
	c.s.unwatch(c.end.doorbell)
	for range len(c.requestsIn.slots)/receiveBudget + 1 {
		if !c.receive() {
			break
		}
	}
	c.takeAcks()
	if c.isServing() && c.peer.state.Load() != sideSilent {
		c.q.failOldest(verbs.StatusRetryExcErr)
	}
}

// updatePeerTimer gives a peer that does not answer the time that the retries
// would have taken.
func (c *shmConn) updatePeerTimer() {
	if !c.q.sq.outstanding() {
		return
	}
	if c.peer.state.Load() != sideActive {
		c.q.onNoResponse()
	} else {
		c.q.responseTimer.stop()
	}
}

// violation: the peer wrote what can not be. It costs this connection.
func (c *shmConn) protocolError() {
	c.q.dev.async.push(verbs.AsyncEvent{Type: verbs.AsyncQPFatal, QP: c.q})
	c.q.failOldest(verbs.StatusBadRespErr)
}
