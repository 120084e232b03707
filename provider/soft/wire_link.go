//go:build linux

package soft

import (
	"math/bits"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// wireLink is the wire path of an RC queue pair: the reliable connection of the
// InfiniBand transport over a link that loses, repeats and reorders packets. It
// reads neither socket nor clock: packets come by receive, time by its timer.
//
// A packet's place is told by its sequence: see nearest. Of own requests
// qp.acked is the oldest that is not answered.
type wireLink struct {
	q        *qp
	s        *wireShard
	to       route
	mtu      uint32 // bytes, a power of two
	mtuShift int
	due      bool // in the shard's list
	heard    bool // the peer has sent a request
	closed   bool

	wireFlight
	wireRequester
	wireResponder
	wireCredits
}

// newWireLink attaches a queue pair that goes to RTR with attr.
func newWireLink(q *qp, to route, attr *verbs.QPAttr) (*wireLink, error) {
	mtu := uint32(attr.PathMTU.Bytes())
	l := &wireLink{q: q, s: &q.shard.wire, to: to, mtu: mtu, mtuShift: bits.TrailingZeros32(mtu)}
	l.retry.init(q.shard, l.onRetryTimer)
	l.wireResponder.init(attr)
	l.wireCredits.init(q, l.onProbeTimer)
	if err := l.s.link.open(&l.to); err != nil {
		return nil, err
	}
	l.join(l.s.peer(to.remote))
	l.s.attach(q.num, l)
	return l, nil
}

// receive: see wireEnd. What is not of this connection is dropped (IBTA vol. 1,
// 9.6.1.1, 9.6.1.2).
func (l *wireLink) receive(p wire.Packet, from *arrival) {
	if !l.q.serves() || from.from != l.to.remote || p.Opcode().Transport() != wire.RC {
		return
	}
	if p.Opcode().Response() {
		l.receiveAnswer(p)
		return
	}
	if !l.heard {
		l.listen(p)
	}
	l.receiveRequest(p)
}

// listen checks whether a request packet has the first sequence number of the peer.
// The number was sent to the peer's address only, so the packet shows that the peer
// received the reply; see proof.
func (l *wireLink) listen(p wire.Packet) {
	if p.BTH().PSN() == number(l.base, l.expect) {
		l.heard = true
		l.q.dev.mads.heard(l.q.num)
	}
}

// transmit: see path. What the peer is owed does not hold up the requests: it is
// scheduled, and comes with the next drive.
func (l *wireLink) transmit() {
	if !l.request() {
		l.schedule()
	}
	l.s.link.flush()
}

// work: see wireEnd.
func (l *wireLink) work() (done bool) {
	done = l.closed || !l.q.serves() || l.send()
	l.due = !done
	return done
}

// send sends what there is to be sent now, and reports whether all of it is out.
// Requests go first: the peer's application waits for them, and mostly only its
// device for an acknowledgement.
func (l *wireLink) send() (done bool) {
	requested := l.request()
	return l.respond() && requested
}

// schedule has work called, at the latest before the shard's owner sleeps.
func (l *wireLink) schedule() {
	if !l.due {
		l.due = true
		l.s.due = append(l.s.due, l)
	}
}

// resend: see path.
func (l *wireLink) resend() {
	l.recovering = true // a late NAK about what was in flight behind is no news
	l.goBack()
}

// collect: see path. What has arrived was taken when it did.
func (l *wireLink) collect() bool { return false }

// silence: see path. What was completed to the owner is acknowledged all the same;
// of the rest the peer finds out when nobody answers.
func (l *wireLink) silence() {
	l.retry.stop()
	l.probe.stop()
	l.ground()
	if l.ackDue && l.kept.due() == nil {
		l.sendAck()
	}
	l.s.link.flush()
}

// detach: see path.
func (l *wireLink) detach() {
	l.closed = true
	l.retry.stop()
	l.probe.stop()
	l.ground()
	l.s.forget(l.peer)
	l.s.detach(l.q.num)
	l.s.link.close(&l.to)
}

// packet gives the place for a packet to the peer, or false for want of room.
func (l *wireLink) packet(op wire.Opcode, payload int, num psn.Value) (wire.Packet, bool) {
	b := l.s.link.room(&l.to, op.Size(payload))
	if b == nil {
		return wire.Packet{}, false
	}
	p := wire.Build(b, op, payload)
	bth := p.BTH()
	bth.SetDestQP(l.q.attr.DestQPN)
	bth.SetPSN(num)
	return p, true
}

func (l *wireLink) push(p wire.Packet) { l.s.link.push(&l.to, p) }

// packets is how many packets a message has, and a READ's response (IBTA vol. 1,
// 9.7.2): one even if there is nothing in it.
func (l *wireLink) packets(total uint32) uint64 {
	return max(1, (uint64(total)+uint64(l.mtu)-1)>>l.mtuShift)
}

var _ path = (*wireLink)(nil)
