//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

// A qpDemux delivers the packets of a shard to queue pairs by number. It delivers all
// packets before it sends responses, so a burst of requests needs only one
// acknowledgement.
type qpDemux struct {
	conn packetConn
	qps  map[uint32]wireQP // queue pairs by number
	due  []wireQP          // queue pairs that have something to send
	// true during sendAll, which sends acknowledgements without delay
	flushAll bool
	// true if packets were queued after the last flush
	unflushed bool
	// true if flushFirst has sent packets since the last call of sendDue
	flushed bool
	// true if requests that ask for an acknowledgement were received after the last call of
	// answer
	asked bool
	pace  turnPace
	polls uint32 // number of polls of the sockets that have ended; wraps
}

// receive delivers a packet to its queue pair. It returns false if the partition or the
// queue pair number is wrong (IBTA vol. 1, 9.6.1). The caller has checked the ICRC.
func (d *qpDemux) receive(p wire.Packet, from *udp.Header) (taken bool) {
	bth := p.BTH()
	if !wire.PKeysMatch(bth.PKey(), wire.DefaultPKey) {
		return false
	}
	q := d.qps[bth.DestQP()]
	if q != nil {
		q.receive(p, from)
	}
	return q != nil
}

// sendDue sends the packets that are due. Acknowledgements may wait for a later call;
// see ackDelay.
func (d *qpDemux) sendDue() {
	d.flushed = false
	if !d.idle() {
		d.sendListed()
	}
}

// polled is called after each poll of the sockets.
func (d *qpDemux) polled() { d.polls++ }

// ask is called when a request that asks for an acknowledgement was executed.
func (d *qpDemux) ask() { d.asked = true }

// mayDelayAcks reports whether acknowledgements may wait for a later call of sendDue: the
// owner's turns are short, and the owner does not sleep next.
func (d *qpDemux) mayDelayAcks() bool { return d.pace.short && !d.flushAll }

// answer is called after packets were received, if answersDue returns true. Unless the owner's
// turns are short, it sends what is due, so that the peer gets its acknowledgements
// before the owner's callbacks run.
func (d *qpDemux) answer(clock func() time.Duration) {
	d.asked = false
	if !d.pace.next(clock) {
		d.sendListed()
	}
}

// answersDue reports whether ask was called after the last call of answer.
func (d *qpDemux) answersDue() bool { return d.asked }

// newDemux returns a demux without queue pairs that sends with conn.
func newDemux(conn packetConn) qpDemux { return qpDemux{conn: conn} }

func (d *qpDemux) push(to *udp.Route, p wire.Packet) {
	d.unflushed = true
	d.conn.Push(to, p)
}

// flushFirst sends the queued packets, but only in its first call after sendDue. After
// that, packets wait for the next sendDue, so that one system call can send the packets
// of many connections.
func (d *qpDemux) flushFirst() {
	if d.unflushed && !d.flushed {
		d.flushed = true
		d.flush()
	}
}

func (d *qpDemux) flush() {
	d.unflushed = false
	d.conn.Flush()
}

// idle reports whether there is nothing to send.
func (d *qpDemux) idle() bool { return len(d.due) == 0 && !d.unflushed }

// sendListed lets the queue pairs in d.due send. Queue pairs with unsent packets stay in
// d.due. The compiler can inline qpDemux.sendDue because sendListed is a separate
// function.
func (d *qpDemux) sendListed() {
	n := 0
	// The calls of q.sendDue may append to d.due, so len(d.due) is read in each round.
	for i := 0; i < len(d.due); i++ {
		if q := d.due[i]; !q.sendDue() {
			d.due[n] = q
			n++
		}
	}
	clear(d.due[n:])
	d.due = d.due[:n]
	d.flush()
}

// sendAll is called before the owner may sleep. It sends what is due, and also the
// delayed acknowledgements. It returns false if something is left.
func (d *qpDemux) sendAll() bool {
	d.flushAll = true
	d.sendDue()
	d.flushAll = false
	return len(d.due) == 0
}

// attach registers a queue pair for the packets with its number.
func (d *qpDemux) attach(num uint32, q wireQP) {
	if d.qps == nil {
		d.qps = make(map[uint32]wireQP)
	}
	d.qps[num] = q
}

// schedule makes sure that sendDue of a queue pair is called, in the next call of
// shard.drive() or before the owner sleeps.
func (d *qpDemux) schedule(q wireQP) { d.due = append(d.due, q) }

func (d *qpDemux) detach(num uint32) { delete(d.qps, num) }
