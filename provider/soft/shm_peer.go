//go:build linux

package soft

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

const (
	// receiveBudget is how many slots a shmPeer consumes in one call of drive. Arbitrary.
	receiveBudget = 64
	// publishEvery is how many slots are published together. Publishing is expensive,
	// but the peer should not wait long for the first slot. Arbitrary.
	publishEvery = 8
	// unusedTime is how long a shmPeer is kept after its last connection has ended.
	// Arbitrary.
	unusedTime = time.Second
	// maxUnused is how many shmPeers without connections a shard keeps. Arbitrary.
	maxUnused = 16
	// maxHeld limits the number of shmPeers without connections. A shard that keeps so
	// many drops any further one, even if shm.Ends.Hold keeps it open. Arbitrary.
	maxHeld = 4 * maxUnused
	// maxPending is the maximum number of slots that were sent and not executed, as a
	// multiple of the ring's size. Arbitrary.
	maxPending = 8
)

// sharingState says whether the other shard still uses the shared memory correctly.
type sharingState uint8

const (
	// sharingOpen: the other shard uses the memory. A new shmPeer is in this state.
	sharingOpen sharingState = iota
	// sharingEnded: the other shard has left, or its process has ended. It will send no
	// more slots.
	sharingEnded
	// sharingBroken: the other process has written an invalid value. No more of its
	// slots are read.
	sharingBroken
)

// A shmConfig says what all local paths of a device share.
type shmConfig struct {
	ends *shm.Ends
	maps *shm.MappingLimit
	// sharesWith reports whether this process and one of the user may map regions of each
	// other.
	sharesWith func(uid uint32) bool
	// withdraw releases the End that the queue pair own has offered to the queue pair peer.
	// It returns false if there is none, usually because the peer has taken it.
	withdraw func(own, peer uint32) bool
}

// shmPeers has the memory that a shard shares with other shards. It belongs to the shard.
type shmPeers struct {
	*shmConfig
	shard       *shard
	byEnd       map[*shm.End]*shmPeer
	unused      int      // number of peers without connections
	doorbellBuf [64]byte // buffer for bytes read from doorbells
}

func newSHMPeers(s *shard, cfg *shmConfig) *shmPeers {
	return &shmPeers{shmConfig: cfg, shard: s, byEnd: make(map[*shm.End]*shmPeer)}
}

// peer returns the shmPeer of an end. It makes one if there is none.
func (t *shmPeers) peer(end *shm.End) (*shmPeer, error) {
	if p := t.byEnd[end]; p != nil {
		return p, nil
	}
	p, err := newSHMPeer(t, end)
	if err != nil {
		return nil, err
	}
	t.byEnd[end] = p
	end.Adopt()
	return p, nil
}

// conn returns the connection of a queue pair, or nil.
func (t *shmPeers) conn(num uint32) *shmConn {
	for _, p := range t.byEnd {
		if c := p.conns.byNum[num]; c != nil {
			return c
		}
	}
	return nil
}

// connOver is like conn, for a connection that uses the given End.
func (t *shmPeers) connOver(end *shm.End, num uint32) *shmConn {
	if p := t.byEnd[end]; p != nil {
		return p.conns.byNum[num]
	}
	return nil
}

// close ends all sharing when the shard has stopped. There are no connections left.
func (t *shmPeers) close() {
	for _, p := range t.byEnd {
		if !p.drop(true) {
			p.close()
		}
	}
}

// A shmPeer is the memory that this shard shares with another one. It has a ring of
// slots in each direction. All connections on the local path between the two shards use
// these rings. A shmPeer belongs to its shard.
//
// A shard consumes slots even if it has no room to send. Its answers then wait: notices
// in the field notices, and responses in their connections. So two shards with full
// rings never wait for each other.
//
// The shard polls active and idle peers. A peer that is not polled rings the doorbell.
// Before the owner may sleep, the shard asks all peers to ring.
type shmPeer struct {
	all   *shmPeers
	shard *shard
	end   *shm.End
	own   *shm.ControlBlock // control block that this side writes
	peer  *shm.ControlBlock // control block that the peer writes; the peer may be hostile
	state sharingState

	out shm.Producer
	in  shm.Consumer

	sent shmSent // positions in the ring for sending
	// last value of peer.Refusals; all slots before it were consumed
	refusalsSeen uint32
	acks         shmAcks // acknowledgements of received slots

	regions remoteRegions // memory regions of the other process
	// true if the two processes may map regions of each other; see Config.PrivateRegions
	sharesRegions bool
	// number of slots shm.Stopped and shm.Granted that this side has consumed; see
	// shm.ControlBlock.Changes
	changesSeen uint32
	// variable whose atomic operations keep stores to mapped regions in order
	barrier atomic.Uint32

	conns shmConns
	last  *shmConn // connection that received a small message last, or nil
	// connections that wait for room in the ring out, in the order of their turns
	blocked fifo[*shmConn]
	notices noticeQueue // slots without payload that wait for room in the ring out

	// number of connections with a failed request whose NAK was not sent yet; see
	// shmConn.failed
	unsettled int
	confirmed bool // true after the first slot of the peer has arrived
	receiving bool // true while receive() runs
	draining  bool // true while drain() runs
	// true if slots were published and the peer was not woken yet
	wakeDue bool
	wakeFor shm.WakeLevel // last value stored in own.WakeFor
	// largest number of unread bytes in the socket of the doorbell
	pendingRings int
	schedule     pollEntry
	unusedTimer  timer // timer for dropUnused(); runs while the shmPeer has no connections
}

func newSHMPeer(all *shmPeers, end *shm.End) (*shmPeer, error) {
	s := all.shard
	p := &shmPeer{all: all, shard: s, end: end}
	p.schedule.conn = p
	var out, in shm.Ring
	p.own, out = end.Segment.Carve(end.Side)
	p.peer, in = end.Segment.Carve(1 - end.Side)
	p.out, p.in = shm.NewProducer(out), shm.Consumer{Ring: in}
	if err := s.Watch(end.Doorbell, unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLET, p); err != nil {
		return nil, err
	}
	p.unusedTimer.init(s, timerheap.Func(p.dropUnused))
	p.regions.init(s, all.maps.For(end.Peer()))
	p.sharesRegions = all.sharesWith(end.Peer().UID)
	s.polls.activate(&p.schedule)
	return p, nil
}

// add adds a connection, and tells the peer that its queue pair is ready.
func (p *shmPeer) add(c *shmConn) {
	if p.conns.len() == 0 && p.unusedTimer.Running() {
		p.unusedTimer.stop()
		p.all.unused--
	}
	p.conns.add(c)
	p.activate()
	p.notify(notice{op: shm.Ready, to: c.dest, imm: uint32(c.accepts)})
}

// remove removes a connection. After the last one, the shared memory is kept for a
// while, because a new connection may need it.
func (p *shmPeer) remove(c *shmConn) {
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
	p.unusedTimer.start(unusedTime)
}

// dropUnused ends the sharing if no connection needs it. It is called by unusedTimer.
func (p *shmPeer) dropUnused() {
	if p.drop(false) {
		p.all.unused--
	} else {
		p.unusedTimer.start(unusedTime)
	}
}

// drop ends the sharing. It returns false if a connection may still begin to use the
// memory, because an expected REP may choose it. If force is true, drop ends the sharing
// even then, and the connection of such a REP fails.
func (p *shmPeer) drop(force bool) bool {
	p.acknowledge() // Afterwards no acknowledgement can be sent to the peer.
	if !p.all.ends.Drop(p.end, force) {
		return false
	}
	p.close()
	return true
}

// close ends the sharing. All connections must have been removed.
func (p *shmPeer) close() {
	p.unusedTimer.stop()
	p.shard.polls.remove(&p.schedule)
	p.shard.Unwatch(p.end.Doorbell)
	delete(p.all.byEnd, p.end)
	p.regions.close()
	p.end.Close()
}

// OnReady is called when the peer has rung or closed the doorbell.
func (p *shmPeer) OnReady(_ int, events uint32) {
	p.wakeFor = shm.WakeNone
	p.activate()
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		p.onHangUp()
	}
}

// activate makes the shard poll the peer in each call of drive.
func (p *shmPeer) activate() { p.shard.polls.activate(&p.schedule) }

// poll implements poller. It processes slots of the peer, and sends what can be sent. It returns false if
// there was no work. After idleAfter such calls the peer becomes idle.
func (p *shmPeer) poll() bool {
	polls := &p.shard.polls
	if p.state != sharingOpen {
		p.endConns()
		polls.remove(&p.schedule)
		return true
	}
	if polls.rests(&p.schedule) && p.isIdle() {
		polls.makeIdle(&p.schedule)
		return false
	}
	work := p.in.Ready() && p.receive()
	if p.awaitsAck() || polls.acks() {
		work = p.takeAcks() || work
	}
	if work {
		polls.worked(&p.schedule)
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
func (p *shmPeer) rest() {
	if p.acks.unacked > 0 {
		p.acknowledge()
	}
	if p.out.OwnDue() && !p.out.OwnNext() {
		p.freeSlots()
	}
}

// isIdle reports whether there is no work. Unacknowledged requests count as work,
// because the peer perhaps does not ring when it acknowledges them.
func (p *shmPeer) isIdle() bool {
	return !p.in.Ready() && p.acks.unacked == 0 && p.sent.executed == p.sent.seq && !p.awaitsAck()
}

// awaitsAck reports whether each acknowledgement has to be processed at once.
func (p *shmPeer) awaitsAck() bool {
	return !p.sent.awaited.empty() || p.blocked.len() > 0 || p.notices.len() > 0
}

// takeAcks processes an acknowledgement of the peer. It returns false if none has
// arrived. It also sends slots for which the ring had no room before.
func (p *shmPeer) takeAcks() bool {
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
		c.confirm(c.acked())
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
func (p *shmPeer) refusalsConsumed() bool {
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
func (p *shmPeer) acknowledge() {
	p.own.Ack.Store(uint64(p.acks.acknowledge(p.in.Head, p.notices.len()+p.unsettled == 0)))
	p.wake(shm.WakeAll)
}

// onHangUp is called when the peer has closed the doorbell. It first processes what the
// peer has published.
func (p *shmPeer) onHangUp() {
	p.shard.Unwatch(p.end.Doorbell)
	p.drain()
	if p.state == sharingOpen {
		p.state = sharingEnded
		p.all.ends.Forget(p.end)
	}
	p.endConns()
	if p.unusedTimer.Running() {
		p.dropUnused()
	}
}

// drain processes the slots that the peer has published, at most as many as the ring
// has.
func (p *shmPeer) drain() {
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
func (p *shmPeer) endConns() {
	left := p.peer.Left.Load() == 1
	for _, c := range p.conns.byNum {
		switch {
		case !c.q.isServing():
		case p.state == sharingBroken:
			c.q.onInvalidMemory()
		case left:
			c.onStopped(c.acked())
		case c.state != peerStopped:
			c.q.onRetriesExceeded()
		}
	}
}

// protocolError ends all connections after an invalid value in shared memory. It is one
// violation, whatever the number of connections.
func (p *shmPeer) protocolError() {
	if p.state != sharingBroken {
		p.state = sharingBroken
		for _, c := range p.conns.byNum {
			c.q.countViolation()
			break
		}
		p.all.ends.Forget(p.end)
		p.end.HangUp()
		p.activate()
		p.endConns()
	}
}
