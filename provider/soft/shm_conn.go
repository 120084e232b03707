//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// peerState says whether the peer's queue pair executes requests.
type peerState uint8

const (
	// peerUnknown: the peer's queue pair has not said yet that it is ready. No requests
	// are sent. A connection begins in this state.
	peerUnknown peerState = iota
	// peerReady: the peer's queue pair executes requests. The state begins with a slot
	// shm.Ready or shm.ReadyToo.
	peerReady
	// peerStopped: the peer's queue pair is closed or in the error state. The state
	// begins with a slot shm.Stopped, or when the other shard leaves.
	peerStopped
)

// A shmConn is the local path of an RC queue pair: one of the connections that use a
// shmPeer. It belongs to the shard.
type shmConn struct {
	q      *qp
	p      *shmPeer
	source access.Source // see localEnd.peer

	dest shm.Dest // peer's queue pair, with the attempt of the next request
	// Dest of the slots whose requests are executed: the own queue pair with the present
	// attempt. Requests with another attempt were sent before an RNR NAK arrived.
	accepts shm.Dest
	serving bool // true until the queue pair stops executing requests

	first   uint8 // attempt with which this connection has begun
	isFirst bool  // true for the first connection of the queue pair
	// The last shm.Ready that was answered had this Dest. It is 0 before the first answer.
	answeredTo shm.Dest
	answers    int // number of answers

	state     peerState
	stoppedAt uint64 // in peerStopped: position of the first slot that is not executed
	// position of the last READ or atomic with a complete response; the peer has executed
	// all requests of this connection before it
	responded uint64

	// what the peer's queue pair allows, and what it was told that this one allows
	grant, granted grant
	askedForGrant  bool   // true after this side has sent shm.Share
	sharing        bool   // true after the peer has sent shm.Share
	asks           bool   // true if askFor has to be called after the next request
	executedKey    uint32 // key of the last request of the peer that was executed, or 0

	blocked   bool       // true if the connection is in shmPeer.blocked
	responses []response // responses to the peer that were not sent completely
	// Failure that waits until the responses are sent, and the position of its slot. Its
	// value outcomeAck means none.
	failed   outcome
	failedAt uint32
}

// maxAnswers is how many slots shm.Ready a connection answers. A peer sends few of them.
// Arbitrary.
const maxAnswers = 16

// A response is the response to a READ or an atomic of the peer.
type response struct {
	op   fragment.Op // fragment.ReadData or fragment.AtomicResult
	left memoryRange // memory of a READ that is still to be sent
	old  uint64      // result of an atomic
}

// newSHMConn makes the path of a queue pair. If it succeeds, it takes over the caller's
// use of the end.
func newSHMConn(q *qp, end *localEnd, peer uint32) (*shmConn, error) {
	p, err := q.shard.shmPeer(end.End)
	if err != nil {
		return nil, err
	}
	c := &shmConn{q: q, p: p, source: end.peer,
		dest: shm.NewDest(peer, 0), serving: true}
	c.isFirst = q.firstConnection()
	c.nextAttempt()
	c.first = c.accepts.Attempt()
	p.add(c)
	return c, nil
}

// ready implements path. The connection is usable already.
func (c *shmConn) ready() error { return nil }

// stopResponding implements path. It tells the peer that no later request is executed.
func (c *shmConn) stopResponding() {
	if c.serving {
		c.serving = false
		c.responses = nil
		if c.failed != outcomeAck {
			c.p.unsettled--
		}
		c.p.unblock(c)
		c.p.notifyChange(notice{op: shm.Stopped, to: c.dest, imm: c.stoppedServing()})
	}
}

// stoppedServing returns the position of the first slot whose request is not executed.
func (c *shmConn) stoppedServing() uint32 {
	if c.failed != outcomeAck {
		return c.failedAt
	}
	return c.p.in.Head
}

// reset implements path. It ends the connection; the next RTR makes a new one.
func (c *shmConn) reset() (usable bool) {
	c.stopResponding()
	c.detach()
	return false
}

// detach implements path. It also releases an end that was offered but not taken.
func (c *shmConn) detach() {
	c.serving = false
	c.q.dev.bindings.drop(c.q.num, c.dest.QPN())
	c.p.remove(c)
}

// rebind implements path. It returns a new shmConn for the offered end, unless this one
// uses the same end or its peer has taken the other end.
func (c *shmConn) rebind(end *localEnd) (moved path, taken bool, err error) {
	if end.End == c.p.end || !c.q.dev.bindings.drop(c.q.num, c.dest.QPN()) {
		end.Release()
		return nil, true, nil
	}
	to, err := newSHMConn(c.q, end, c.dest.QPN())
	if err != nil {
		end.Release()
		return nil, true, err
	}
	c.detach()
	return to, true, nil
}

// peerGone implements path. It processes what the peer has published, and then acts as
// if the peer's process had ended.
func (c *shmConn) peerGone(end *shm.End) {
	if c.p.end != end {
		return
	}
	c.p.drain()
	if c.q.isServing() && c.state != peerStopped {
		c.q.onRetriesExceeded()
	}
}

// receiveAt implements path. Only UD queue pairs use this method, so it does nothing
// here.
func (*shmConn) receiveAt(netip.Addr) error { return nil }

// receivesPosted implements path. A waiting peer repeats its request when its RNR timer
// fires.
func (c *shmConn) receivesPosted() {}

// consumeArrived implements path.
func (c *shmConn) consumeArrived() { c.p.drain() }

// accessSource implements path. The field source is zero if the peer is this process.
func (c *shmConn) accessSource() (access.Source, bool) {
	return c.source, c.source != access.Source{}
}

var _ path = (*shmConn)(nil)
