//go:build linux

package shmpath

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/capture"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// peerState says whether the peer's queue pair executes requests.
type peerState uint8

const (
	// peerUnknown: the peer's queue pair has not said yet that it is ready. No requests
	// are sent. A connection begins in this state.
	peerUnknown peerState = iota
	// peerReady: the peer's queue pair executes requests. It has announced this in
	// a slot shm.Ready or shm.ReadyToo.
	peerReady
	// peerStopped: the peer's queue pair is closed or in the error state. It has said so
	// in a slot shm.Stopped, or the other shard has left.
	peerStopped
)

// A Conn is the local path of an RC queue pair. Several Conns can use the same
// peer. A Conn belongs to the shard.
type Conn struct {
	q   *qp.QP
	p   *peer
	tap *capture.RC // records what is sent and received; nil without a capture
	// source under which access errors of the peer are counted; see End.Source
	source access.Source

	dest shm.Dest // destination of requests: the peer's queue pair and the present attempt
	// number of this side's queue pair and its present attempt number; see shm.Dest. A
	// request of the peer with another attempt number is dropped. Usually the peer has
	// sent it before the last RNR NAK arrived.
	accepts shm.Dest
	serving bool // true until the queue pair stops executing requests

	first   uint8 // attempt number with which this connection began; see shm.Dest
	isFirst bool  // true for the first connection of the queue pair
	// sender of the slot shm.Ready that was answered last; 0 before the first answer
	answeredTo shm.Dest
	answers    int // number of slots shm.Ready that were answered; see maxAnswers
	// number of the notice with the last NAK; see noticeQueue
	refusal uint64

	state     peerState
	answer    answerTimer // ends the connection if the peer does not answer
	stoppedAt uint64      // position of the first slot that is not executed; valid in peerStopped
	// position of the last READ or atomic whose response has arrived completely. The peer
	// has executed all requests before this position.
	responded uint64

	theirs      grantReport // access rights of the peer's queue pair, as the peer has reported them
	ours        grantReport // access rights of this side's queue pair, as reported to the peer
	awaitsAcks  bool        // true while sent.awaited has an entry for waitsForOutstanding
	executedKey uint32      // key of the last executed request with data; 0 for a request without key

	blocked   bool       // true if the connection is in peer.blocked
	responses []response // responses to the peer that were not sent completely
	// reason for which a request of the peer has failed, or qp.OutcomeAck; it is sent after the
	// responses
	failed   qp.Outcome
	failedAt uint32 // position of the slot of the failed request
}

// maxAnswers is how many slots shm.Ready a connection answers. A correct peer sends only
// few of them. Arbitrary.
const maxAnswers = 16

// A response is the response to a READ or an atomic of the peer.
type response struct {
	op   fragment.Op    // type of the response: fragment.ReadData or fragment.AtomicResult
	left qp.MemoryRange // memory of a READ that is still to be sent
	old  uint64         // result of an atomic, which is the old value of the memory
}

// An End is the End that a connection uses.
type End struct {
	*shm.End
	// source under which access errors of the peer are counted; zero if the peer is this
	// process
	Source access.Source
}

// New makes the path of a queue pair. If it succeeds, the path owns the end.
func New(all *Peers, q *qp.QP, end *End, peer uint32) (*Conn, error) {
	p, err := all.peer(end.End)
	if err != nil {
		return nil, err
	}
	if p.notices.len() >= maxWaiting {
		// There is room for connections of other processes, so this is not
		// verbs.ErrNoResources.
		return nil, fmt.Errorf("%w: the peer's loop does not take the notices of its connections", verbs.ErrProtocol)
	}
	c := &Conn{q: q, p: p, source: end.Source,
		dest: shm.NewDest(peer, 0), serving: true}
	c.answer.timer.Init(q.Shard, c)
	c.isFirst = q.FirstConnection()
	c.nextAttempt()
	c.first = c.accepts.Attempt()
	p.add(c)
	return c, nil
}

// StopResponding implements qp.ReliablePath. It tells the peer that later requests are not
// executed.
func (c *Conn) StopResponding() {
	if c.serving {
		c.serving = false
		c.answer.timer.Stop()
		c.responses = nil
		if c.failed != qp.OutcomeAck {
			c.p.unsettled--
		}
		c.p.unblock(c)
		c.p.notifyChange(notice{op: shm.Stopped, to: c.dest, imm: c.stoppedServing()})
	}
}

// stoppedServing returns the position of the first slot that is not executed.
func (c *Conn) stoppedServing() uint32 {
	if c.failed != qp.OutcomeAck {
		return c.failedAt
	}
	return c.p.in.Head
}

// Detach implements qp.Path. If the peer has not taken the shm.End that was offered to it,
// Detach releases this shm.End.
func (c *Conn) Detach() {
	c.serving = false
	c.answer.timer.Stop()
	c.p.withdraw(c)
	c.p.remove(c)
}

// Rebind is called when connection management binds an End to a queue pair that already
// has a local path. This device may have made shared memory for that path. If the peer has
// not taken its End of this memory, nothing was sent over the path yet. In this case Rebind
// returns a new path that uses the bound End, and the queue pair sends all its requests over
// the new path. Otherwise moved is nil, and Rebind releases the bound End.
func (c *Conn) Rebind(end *End) (moved *Conn, err error) {
	if end.End == c.p.end || !c.p.withdraw(c) {
		end.Release()
		return nil, nil
	}
	if moved, err = New(c.p.all, c.q, end, c.dest.QPN()); err != nil {
		end.Release()
		return nil, err
	}
	moved.tap = c.tap
	c.Detach()
	return moved, nil
}

// PeerGone is called when the peer's process has ended without closing the connection. It
// processes what the peer has published, and then acts as if the process had ended.
func (c *Conn) PeerGone() {
	c.p.drain()
	if c.q.IsServing() && c.state != peerStopped {
		c.q.OnRetriesExceeded()
	}
}

// AwaitsNotices first processes all slots that have arrived. It then reports whether
// requests of this side are still outstanding and the peer has announced notices that have
// not arrived. When the peer refuses a request or its queue pair stops, the peer sends a
// notice. The notice may have to wait for room in the ring. Only the notice says which
// requests were not executed.
func (c *Conn) AwaitsNotices() bool {
	if !c.q.Outstanding() {
		return false
	}
	c.p.drain()
	return c.p.state == sharingOpen && c.state == peerReady && c.q.Outstanding() && !c.peerUnchanged()
}

// ConsumeArrived implements qp.LocalPath.
func (c *Conn) ConsumeArrived() { c.p.drain() }

// AccessSource implements qp.ReliablePath. It returns false if the peer's queue pair
// belongs to this process. Access errors of such a peer are not counted.
func (c *Conn) AccessSource() (access.Source, bool) {
	return c.source, c.source != access.Source{}
}

var _ qp.LocalPath = (*Conn)(nil)

// A conns finds the connections of a peer by the numbers of their queue pairs.
type conns struct {
	byNum map[uint32]*Conn
	// Cache of byNum: connections that were found before. The index is the result of
	// slotOf(). The length is a power of two.
	found []*Conn
}

// minFound is the smallest length of conns.found. Arbitrary.
const minFound = 8

// slotOf returns the index in found for a queue pair number. The numbers of one shard
// differ by multiples of the number of shards. The multiplication spreads them; see
// Knuth, The Art of Computer Programming, vol. 3, 6.4, "multiplicative hashing".
func (cs *conns) slotOf(num uint32) uint32 {
	return num * 0x9e3779b1 >> 16 & uint32(len(cs.found)-1)
}

// find returns the connection of a queue pair, or nil.
func (cs *conns) find(num uint32) *Conn {
	if len(cs.found) == 0 {
		return nil
	}
	at := cs.slotOf(num)
	if c := cs.found[at]; c != nil && c.q.Num() == num {
		return c
	}
	c := cs.byNum[num]
	if c != nil {
		cs.found[at] = c
	}
	return c
}

func (cs *conns) len() int { return len(cs.byNum) }

// sorted returns the connections in the order of their numbers.
func (cs *conns) sorted() []*Conn {
	return slices.SortedFunc(maps.Values(cs.byNum), func(a, b *Conn) int { return cmp.Compare(a.q.Num(), b.q.Num()) })
}

func (cs *conns) add(c *Conn) {
	if cs.byNum == nil {
		cs.byNum = make(map[uint32]*Conn)
	}
	cs.byNum[c.q.Num()] = c
	if 2*len(cs.byNum) > len(cs.found) && len(cs.found) < 1<<16 {
		cs.found = make([]*Conn, max(minFound, 2*len(cs.found)))
	}
}

func (cs *conns) remove(c *Conn) {
	delete(cs.byNum, c.q.Num())
	if len(cs.found) > 0 {
		cs.found[cs.slotOf(c.q.Num())] = nil
	}
}
