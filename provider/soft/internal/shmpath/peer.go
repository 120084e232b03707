//go:build linux

package shmpath

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

const (
	// receiveBudget is how many slots a peer consumes in one call of drive. Arbitrary.
	receiveBudget = 64
	// publishEvery is how many slots are published together. Publishing is expensive,
	// but the peer should not wait long for the first slot. Arbitrary.
	publishEvery = 8
	// unusedTime is how long a peer is kept after its last connection has ended.
	// Arbitrary.
	unusedTime = time.Second
	// maxUnused is how many peers without connections a shard keeps. Arbitrary.
	maxUnused = 16
	// maxHeld limits the number of peers without connections. A shard that keeps so
	// many drops any further one, even if shm.Ends.Hold keeps it open. Arbitrary.
	maxHeld = 4 * maxUnused
	// maxPending is the maximum number of slots that were sent and not executed, as a
	// multiple of the ring's size. Arbitrary.
	maxPending = 8
)

// sharingState says whether the other shard still uses the shared memory correctly.
type sharingState uint8

const (
	// sharingOpen: the other shard uses the memory. A new peer is in this state.
	sharingOpen sharingState = iota
	// sharingEnded: the other shard has left, or its process has ended. It will send no
	// more slots.
	sharingEnded
	// sharingBroken: the other process has written an invalid value. No more of its
	// slots are read.
	sharingBroken
)

// A Config says what all local paths of a device share.
type Config struct {
	Ends *shm.Ends
	Maps *shm.MappingLimit
	// SharesWith reports whether this process and one of the user may map regions of each
	// other.
	SharesWith func(uid uint32) bool
	// Withdraw releases the End that the queue pair own has offered to the queue pair peer.
	// It returns false if there is none, usually because the peer has taken it.
	Withdraw func(own, peer uint32) bool
}

// Peers has the memory that a shard shares with other shards. It belongs to the shard.
type Peers struct {
	*Config
	shard       *qp.Shard
	byEnd       map[*shm.End]*peer
	unused      int      // number of peers without connections
	doorbellBuf [64]byte // buffer for bytes read from doorbells
}

// NewPeers returns the state of a shard without shared memory.
func NewPeers(s *qp.Shard, cfg *Config) *Peers {
	return &Peers{Config: cfg, shard: s, byEnd: make(map[*shm.End]*peer)}
}

// peer returns the peer of an end. It makes one if there is none.
func (ps *Peers) peer(end *shm.End) (*peer, error) {
	if p := ps.byEnd[end]; p != nil {
		return p, nil
	}
	p, err := newPeer(ps, end)
	if err != nil {
		return nil, err
	}
	ps.byEnd[end] = p
	end.Adopt()
	return p, nil
}

// Conn returns the connection of a queue pair, or nil.
func (ps *Peers) Conn(num uint32) *Conn {
	for _, p := range ps.byEnd {
		if c := p.conns.byNum[num]; c != nil {
			return c
		}
	}
	return nil
}

// ConnOver is like Conn, for a connection that uses the given End.
func (ps *Peers) ConnOver(end *shm.End, num uint32) *Conn {
	if p := ps.byEnd[end]; p != nil {
		return p.conns.byNum[num]
	}
	return nil
}

// Close ends all sharing when the shard has stopped. There are no connections left.
func (ps *Peers) Close() {
	for _, end := range slices.SortedFunc(maps.Keys(ps.byEnd), (*shm.End).Compare) {
		if p := ps.byEnd[end]; !p.drop(true) {
			p.close()
		}
	}
}

// A peer is the memory that this shard shares with another one. It has a ring of
// slots in each direction. All connections on the local path between the two shards use
// these rings. A peer belongs to its shard.
//
// A shard consumes slots even if it has no room to send. Its answers then wait: notices
// in the field notices, and responses in their connections. So two shards with full
// rings never wait for each other.
//
// The shard polls active and idle peers. A peer that is not polled rings the doorbell.
// Before the owner may sleep, the shard asks all peers to ring.
type peer struct {
	all   *Peers
	shard *qp.Shard
	end   *shm.End
	own   *shm.ControlBlock // control block that this side writes
	peer  *shm.ControlBlock // control block that the peer writes; the peer may be hostile
	state sharingState

	out shm.Producer
	in  shm.Consumer

	sent sentSlots // positions in the ring for sending
	// last value of peer.Refusals; all slots before it were consumed
	refusalsSeen uint32
	acks         acks // acknowledgements of received slots

	regions remoteRegions // memory regions of the other process
	// true if the two processes may map regions of each other; see Config.PrivateRegions
	sharesRegions bool
	// number of slots shm.Stopped and shm.Granted that this side has consumed; see
	// shm.ControlBlock.Changes
	changesSeen uint32
	// variable whose atomic operations keep stores to mapped regions in order
	barrier atomic.Uint32

	conns conns
	last  *Conn // connection that received a small message last, or nil
	// connections that wait for room in the ring out, in the order of their turns
	blocked fifo[*Conn]
	notices noticeQueue // slots without payload that wait for room in the ring out

	// number of connections with a failed request whose NAK was not sent yet; see
	// Conn.failed
	unsettled int
	// connections whose acknowledgements Conn.tap has not recorded yet; empty without a
	// capture
	owed      []*Conn
	confirmed bool // true after the first slot of the peer has arrived
	receiving bool // true while receive() runs
	draining  bool // true while drain() runs
	// true if slots were published and the peer was not woken yet
	wakeDue bool
	wakeFor shm.WakeLevel // last value stored in own.WakeFor
	// largest number of unread bytes in the socket of the doorbell
	pendingRings int
	schedule     qp.PollEntry
	unusedTimer  qp.Timer // timer for dropUnused(); runs while the peer has no connections
}

func newPeer(all *Peers, end *shm.End) (*peer, error) {
	s := all.shard
	p := &peer{all: all, shard: s, end: end}
	p.schedule.Conn = p
	var out, in shm.Ring
	p.own, out = end.Segment.Carve(end.Side)
	p.peer, in = end.Segment.Carve(1 - end.Side)
	p.out, p.in = shm.NewProducer(out), shm.Consumer{Ring: in}
	if err := s.Watch(end.Doorbell, unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLET, p); err != nil {
		return nil, err
	}
	p.unusedTimer.Init(s, timerheap.Func(p.dropUnused))
	p.regions.init(s, all.Maps.For(end.Peer()))
	p.sharesRegions = all.SharesWith(end.Peer().UID)
	s.Polls.Activate(&p.schedule)
	return p, nil
}

// add adds a connection, and tells the peer that its queue pair is ready.
func (p *peer) add(c *Conn) {
	if p.conns.len() == 0 && p.unusedTimer.Running() {
		p.unusedTimer.Stop()
		p.all.unused--
	}
	p.conns.add(c)
	p.activate()
	p.notify(notice{op: shm.Ready, to: c.dest, imm: uint32(c.accepts)})
}

// remove removes a connection. After the last one, the shared memory is kept for a
// while, because a new connection may need it.
func (p *peer) remove(c *Conn) {
	p.conns.remove(c)
	p.unblock(c)
	if p.last == c {
		p.last = nil
	}
	p.end.Release()
	if p.conns.len() > 0 {
		return
	}
	if (p.state != sharingOpen || p.all.unused >= maxUnused) && p.drop(p.all.unused >= maxHeld) {
		return
	}
	p.all.unused++
	p.unusedTimer.Start(unusedTime)
}

// dropUnused ends the sharing if no connection needs it. It is called by unusedTimer.
func (p *peer) dropUnused() {
	if p.drop(false) {
		p.all.unused--
	} else {
		p.unusedTimer.Start(unusedTime)
	}
}

// drop ends the sharing. It returns false if a connection may still begin to use the
// memory, because an expected REP may choose it. If force is true, drop ends the sharing
// even then, and the connection of such a REP fails.
func (p *peer) drop(force bool) bool {
	p.acknowledge() // Afterwards no acknowledgement can be sent to the peer.
	if !p.all.Ends.Drop(p.end, force) {
		return false
	}
	p.close()
	return true
}

// close ends the sharing. All connections must have been removed.
func (p *peer) close() {
	p.unusedTimer.Stop()
	p.shard.Polls.Remove(&p.schedule)
	p.shard.Unwatch(p.end.Doorbell)
	delete(p.all.byEnd, p.end)
	p.regions.close()
	p.end.Close()
}

// OnReady is called when the peer has rung or closed the doorbell.
func (p *peer) OnReady(_ int, events uint32) {
	p.wakeFor = shm.WakeNone
	p.activate()
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		p.onHangUp()
	}
}

// withdraw releases the End that the queue pair of c has offered to its peer; see
// Config.Withdraw.
func (p *peer) withdraw(c *Conn) bool { return p.all.Withdraw(c.q.Num(), c.dest.QPN()) }

// activate makes the shard poll the peer in each call of drive.
func (p *peer) activate() { p.shard.Polls.Activate(&p.schedule) }

// Poll implements qp.Poller. It processes slots of the peer, and sends what can be sent. It
// returns false if there was no work. After qp's idleAfter such calls the peer becomes
// idle.
func (p *peer) Poll() bool {
	polls := &p.shard.Polls
	if p.state != sharingOpen {
		p.endConns()
		polls.Remove(&p.schedule)
		return true
	}
	if polls.Rests(&p.schedule) && p.IsIdle() {
		polls.MakeIdle(&p.schedule)
		return false
	}
	work := p.in.Ready() && p.receive()
	if p.awaitsAck() || polls.Acks() {
		work = p.takeAcks() || work
	}
	if work {
		polls.Worked(&p.schedule)
		if p.wakeFor != shm.WakeNone {
			p.wakeFor = shm.WakeNone
			p.own.WakeFor.Store(shm.WakeNone)
		}
	} else {
		p.rest()
	}
	return work
}

// rest does what can wait until there is no other work.
func (p *peer) rest() {
	if p.acks.unacked > 0 {
		p.acknowledge()
	}
	if p.out.OwnDue() && !p.out.OwnNext() {
		p.freeSlots()
	}
}

// IsIdle reports whether there is no work. Unacknowledged requests count as work,
// because the peer perhaps does not ring when it acknowledges them.
func (p *peer) IsIdle() bool {
	return !p.in.Ready() && p.acks.unacked == 0 && p.sent.executed == p.sent.seq && !p.awaitsAck()
}

// awaitsAck reports whether each acknowledgement has to be processed at once.
func (p *peer) awaitsAck() bool {
	return !p.sent.awaited.empty() || p.blocked.len() > 0 || p.notices.len() > 0
}

// takeAcks processes an acknowledgement of the peer. It returns false if none has
// arrived. It also sends slots for which the ring had no room before.
func (p *peer) takeAcks() bool {
	if p.state != sharingOpen {
		return false
	}
	ack := shm.Ack(p.peer.Ack.Load())
	if !p.refusalsConsumed() || ack == p.sent.lastAck {
		return false
	}
	executed, ok := p.sent.position(ack.Executed())
	if !ok || !p.out.Free(ack.Consumed()) {
		p.protocolError()
		return true
	}
	p.sent.lastAck, p.sent.executed = ack, executed
	for c := p.sent.awaited.pop(executed); c != nil; c = p.sent.awaited.pop(executed) {
		if c.tap != nil {
			c.tap.Acked(c.Acked())
		}
		c.confirm(c.Acked())
		c.continueAfterAcks()
	}
	if p.blocked.len() > 0 || p.notices.len() > 0 {
		p.sendWaiting()
	}
	return true
}

// refusalsConsumed reports whether all slots before peer.Refusals were consumed; see
// shm.ControlBlock. The peer publishes these slots before it stores Refusals. If one of
// the slots is missing, the peer has violated the protocol.
func (p *peer) refusalsConsumed() bool {
	refusals := p.peer.Refusals.Load()
	if refusals == p.refusalsSeen {
		return true
	}
	if int32(refusals-p.in.Head) > 0 {
		if !p.in.Ready() {
			p.protocolError()
		}
		return false
	}
	p.refusalsSeen = refusals
	return true
}

// acknowledge acknowledges all consumed slots. If the peer waits for acknowledgements,
// acknowledge wakes it.
func (p *peer) acknowledge() {
	p.own.Ack.Store(uint64(p.acks.acknowledge(p.in.Head, p.notices.len()+p.unsettled == 0)))
	if len(p.owed) > 0 {
		p.recordAcks()
	}
	p.wake(shm.WakeAll)
}

// onHangUp is called when the peer has closed the doorbell. It first processes what the
// peer has published.
func (p *peer) onHangUp() {
	p.shard.Unwatch(p.end.Doorbell)
	p.drain()
	if p.state == sharingOpen {
		p.state = sharingEnded
		p.all.Ends.Forget(p.end)
	}
	p.endConns()
	if p.unusedTimer.Running() {
		p.dropUnused()
	}
}

// drain processes the slots that the peer has published, at most as many as the ring
// has.
func (p *peer) drain() {
	p.draining = true
	defer func() { p.draining = false }()
	for range p.in.Len()/receiveBudget + 1 {
		if !p.receive() {
			break
		}
	}
	p.takeAcks()
}

// endConns ends all connections, because no more slots of the peer are processed.
//
//   - If the peer has left, it has closed its queue pairs. Outstanding requests fail
//     later.
//   - If the peer's process has ended, the queue pairs fail at once.
//   - If the peer has violated the protocol, the queue pairs fail at once too.
func (p *peer) endConns() {
	left := p.peer.Left.Load() == 1
	for _, c := range p.conns.sorted() {
		switch {
		case !c.q.IsServing():
		case p.state == sharingBroken:
			c.q.OnInvalidMemory()
		case left:
			c.onStopped(c.Acked())
		case c.state != peerStopped:
			c.q.OnRetriesExceeded()
		}
	}
}

// protocolError ends all connections after an invalid value in shared memory. It is one
// violation, whatever the number of connections.
func (p *peer) protocolError() {
	if p.state != sharingBroken {
		p.state = sharingBroken
		for _, c := range p.conns.byNum {
			c.q.CountViolation()
			break
		}
		p.all.Ends.Forget(p.end)
		p.end.HangUp()
		p.activate()
		p.endConns()
	}
}

// Arm implements qp.Poller. It asks the peer to ring the doorbell at its next slot. If this
// side waits for acknowledgements, it also asks for a ring at the next acknowledgement. If
// there is work already, Arm returns false.
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
// writes at most one byte after each call of Arm. reserveRing reads the bytes only when
// there may be enough of them to fill doorbellBuf. Fewer unread bytes do no harm, because
// with EPOLLET epoll reports only new bytes (epoll(7)). The peer sends the descriptor of
// a region with such a byte. While this side waits for a descriptor, reserveRing reads
// nothing.
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
