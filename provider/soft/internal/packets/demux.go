//go:build linux

package packets

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

// A Demux delivers the packets of a shard to queue pairs by number. It delivers all
// packets before it sends responses, so a burst of requests needs only one
// acknowledgement.
type Demux struct {
	Conn Conn
	qps  map[uint32]QP // queue pairs by number
	due  []QP          // queue pairs that have something to send
	// true during SendAll, which sends acknowledgements without delay
	flushAll bool
	// true if packets were queued after the last flush
	unflushed bool
	// true if FlushFirst has sent packets since the last call of SendDue
	flushed bool
	// true if requests that ask for an acknowledgement were received after the last call of
	// Answer
	asked bool
	pace  turnPace
	Polls uint32 // number of polls of the sockets that have ended; wraps
}

// Receive delivers a packet to its queue pair. It returns false if the partition or the
// queue pair number is wrong (IBTA vol. 1, 9.6.1). The caller has checked the ICRC.
func (d *Demux) Receive(p wire.Packet, from *udp.Header) (taken bool) {
	bth := p.BTH()
	if !wire.PKeysMatch(bth.PKey(), wire.DefaultPKey) {
		return false
	}
	q := d.qps[bth.DestQP()]
	if q != nil {
		q.Receive(p, from)
	}
	return q != nil
}

// SendDue sends the packets that are due. Acknowledgements may wait for a later call;
// see rcpath.ackDelay.
func (d *Demux) SendDue() {
	d.flushed = false
	if !d.Idle() {
		d.sendListed()
	}
}

// Polled is called after each poll of the sockets.
func (d *Demux) Polled() { d.Polls++ }

// Ask is called when a request that asks for an acknowledgement was executed.
func (d *Demux) Ask() { d.asked = true }

// MayDelayAcks reports whether acknowledgements may wait for a later call of SendDue: the
// owner's turns are short, and the owner does not sleep next.
func (d *Demux) MayDelayAcks() bool { return d.pace.short && !d.flushAll }

// Answer is called after packets were received, if AnswersDue returns true. Unless the
// owner's turns are short, it sends what is due, so that the peer gets its
// acknowledgements before the owner's callbacks run.
func (d *Demux) Answer(clock func() time.Duration) {
	d.asked = false
	if !d.pace.next(clock) {
		d.sendListed()
	}
}

// AnswersDue reports whether Ask was called after the last call of Answer.
func (d *Demux) AnswersDue() bool { return d.asked }

// NewDemux returns a demux without queue pairs that sends with conn.
func NewDemux(conn Conn) Demux { return Demux{Conn: conn} }

// Open prepares a route for use; see Conn.Open.
func (d *Demux) Open(to *udp.Route) error { return d.Conn.Open(to) }

// Close undoes Open.
func (d *Demux) Close(to *udp.Route) { d.Conn.Close(to) }

// OnTimeout is called after the loss of a packet on the route; see Conn.OnTimeout.
func (d *Demux) OnTimeout(to *udp.Route) { d.Conn.OnTimeout(to) }

// Buffer returns memory for one packet, or nil if there is no room; see Conn.Buffer.
func (d *Demux) Buffer(to *udp.Route, size int) []byte { return d.Conn.Buffer(to, size) }

// Push queues a packet; see Conn.Push.
func (d *Demux) Push(to *udp.Route, p wire.Packet) {
	d.unflushed = true
	d.Conn.Push(to, p)
}

// FlushFirst sends the queued packets, but only in its first call after SendDue. After
// that, packets wait for the next SendDue, so that one system call can send the packets
// of many connections.
func (d *Demux) FlushFirst() {
	if d.unflushed && !d.flushed {
		d.flushed = true
		d.Flush()
	}
}

// Flush sends the queued packets.
func (d *Demux) Flush() {
	d.unflushed = false
	d.Conn.Flush()
}

// Idle reports whether there is nothing to send.
func (d *Demux) Idle() bool { return len(d.due) == 0 && !d.unflushed }

// sendListed lets the queue pairs in d.due send. Queue pairs with unsent packets stay in
// d.due. The compiler can inline Demux.SendDue because sendListed is a separate
// function.
func (d *Demux) sendListed() {
	n := 0
	// The calls of q.SendDue may append to d.due, so len(d.due) is read in each round.
	for i := 0; i < len(d.due); i++ {
		if q := d.due[i]; !q.SendDue() {
			d.due[n] = q
			n++
		}
	}
	clear(d.due[n:])
	d.due = d.due[:n]
	d.Flush()
}

// SendAll is called before the owner may sleep. It sends what is due, and also the
// delayed acknowledgements. It returns false if something is left.
func (d *Demux) SendAll() bool {
	d.flushAll = true
	d.SendDue()
	d.flushAll = false
	return len(d.due) == 0
}

// Attach registers a queue pair for the packets with its number.
func (d *Demux) Attach(num uint32, q QP) {
	if d.qps == nil {
		d.qps = make(map[uint32]QP)
	}
	d.qps[num] = q
}

// Schedule makes sure that SendDue of a queue pair is called, in the next call of
// shard.drive() or before the owner sleeps.
func (d *Demux) Schedule(q QP) { d.due = append(d.due, q) }

// Detach undoes Attach.
func (d *Demux) Detach(num uint32) { delete(d.qps, num) }

// NearestSeq converts a PSN, which wraps at 24 bits, to a sequence (IBTA vol. 1, 9.7.1).
// Of the possible sequences, it returns the one that is nearest to reference. The
// parameter base is the PSN of sequence 0. NearestSeq returns false if the sequence
// would be negative.
func NearestSeq(v, base psn.Value, reference uint64) (uint64, bool) {
	seq := int64(reference) + int64(v.Sub(PSNOf(base, reference)))
	return uint64(seq), seq >= 0
}

// PSNOf returns the PSN of a sequence.
func PSNOf(base psn.Value, seq uint64) psn.Value { return base.Add(int(seq)) }

const (
	// PaceTurns is how many turns pass between two readings of the clock by a turnPace.
	// Reading it in each turn would need 2 % more instructions for a message. Arbitrary.
	PaceTurns = 8
	// maxShortTurn is the mean length of short turns. The shortest ACK timeouts in use are
	// some hundred times as long. Arbitrary.
	maxShortTurn = time.Millisecond
)

// A turnPace measures how long the turns of a shard's owner take. A turn is the time
// from one call of shard.drive() that has received requests to the next. It has all
// callbacks of the owner for these requests. While turns are short, acknowledgements are
// sent after the callbacks, and one acknowledgement covers several messages. While turns
// are long, or not known to be short, acknowledgements are sent before the callbacks, so
// that the peer does not wait for these. The zero value is ready to use.
type turnPace struct {
	turns  int
	read   time.Duration // time at which the clock was read last
	recent bool          // true if the turns between the last two readings were short
	// true if turns are short; a single long turn, in which the system has probably run
	// another thread, does not change this
	short bool
}

// next begins a turn. It reports whether the turns are short.
func (p *turnPace) next(clock func() time.Duration) (short bool) {
	if p.turns++; p.turns == PaceTurns {
		now := clock()
		recent := now-p.read < PaceTurns*maxShortTurn
		p.short = recent || p.recent
		p.turns, p.read, p.recent = 0, now, recent
	}
	return p.short
}

// A Conn sends and receives the packets of a shard, and owns their buffers. It may
// lose packets without an error.
type Conn interface {
	// Open prepares a route for use until Close. It fails if the route can not be used.
	Open(to *udp.Route) error
	Close(to *udp.Route)
	// Buffer returns memory for one packet. The caller owns the memory until Push or the
	// next Buffer. Buffer returns nil if there is no room. After the next call of
	// shard.drive() there may be room again.
	Buffer(to *udp.Route, size int) []byte
	// Push queues the packet p, which must be in the memory that Buffer has returned
	// last. The Conn computes the ICRC.
	Push(to *udp.Route, p wire.Packet)
	// Flush sends the queued packets.
	Flush()
	// OnTimeout is called when a packet on the route was not acknowledged in time. The
	// Conn then discards what it has stored about the network path.
	OnTimeout(to *udp.Route)
}

// A QP is a queue pair on the wire path.
type QP interface {
	// Receive processes a packet with a correct partition key and ICRC. It must not keep
	// the packet.
	Receive(p wire.Packet, from *udp.Header)
	// SendDue sends the packets that are due. It returns true if all were sent.
	SendDue() (done bool)
}

var _ Conn = (*udp.Conn)(nil)
