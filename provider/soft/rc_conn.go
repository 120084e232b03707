//go:build linux

package soft

import (
	"math/bits"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// rcConn is the wire path of an RC queue pair: the reliable connection of the
// InfiniBand transport over a link that loses, repeats and reorders packets. It
// reads neither socket nor clock: packets come by receive, time by its timer.
//
// A packet's place is told by its sequence: see nearest. Of own requests
// qp.acked is the oldest that is not answered.
type rcConn struct {
	q         *qp
	demux     *qpDemux
	to        route
	mtu       uint32 // bytes, a power of two
	mtuShift  int
	scheduled bool // in the shard's list
	peerSent  bool // the peer has sent a request
	closed    bool

	connCongestion
	rcRequester
	rcResponder
	rcCredits
}

// newRCConn attaches a queue pair that goes to RTR with attr.
func newRCConn(q *qp, to route, attr *verbs.QPAttr) (*rcConn, error) {
	mtu := uint32(attr.PathMTU.Bytes())
	l := &rcConn{q: q, demux: &q.shard.wire, to: to, mtu: mtu, mtuShift: bits.TrailingZeros32(mtu)}
	l.retransmitTimer.init(q.shard, l.onRetransmitTimer)
	l.rcResponder.init(attr)
	l.rcCredits.init(q, l.onProbeTimer)
	if err := l.demux.conn.open(&l.to); err != nil {
		return nil, err
	}
	l.join(l.demux.acquireCongestion(to.remote))
	l.demux.attach(q.num, l)
	return l, nil
}

// receive: see wireQP. What is not of this connection is dropped (IBTA vol. 1,
// 9.6.1.1, 9.6.1.2).
func (c *rcConn) receive(p wire.Packet, from *ipHeader) {
	if !c.q.isServing() || from.from != c.to.remote || p.Opcode().Transport() != wire.RC {
		return
	}
	if p.Opcode().Response() {
		c.receiveResponse(p)
		return
	}
	if !c.peerSent {
		c.checkFirstPacket(p)
	}
	c.receiveRequest(p)
}

// listen checks whether a request packet has the first sequence number of the peer.
// The number was sent to the peer's address only, so the packet shows that the peer
// received the reply; see proof.
func (c *rcConn) checkFirstPacket(p wire.Packet) {
	if p.BTH().PSN() == psnOf(c.peerBase, c.expected) {
		c.peerSent = true
		c.q.dev.mux.peerSentData(c.q.num)
	}
}

// transmit: see path. What the peer is owed does not hold up the requests: it is
// scheduled, and comes with the next drive.
func (c *rcConn) transmit() {
	if !c.sendRequests() {
		c.schedule()
	}
	c.demux.conn.flush()
}

// work: see wireQP.
func (c *rcConn) sendDue() (done bool) {
	done = c.closed || !c.q.isServing() || c.send()
	c.scheduled = !done
	return done
}

// send sends what there is to be sent now, and reports whether all of it is out.
// Requests go first: the peer's application waits for them, and mostly only its
// device for an acknowledgement.
func (c *rcConn) send() (done bool) {
	requested := c.sendRequests()
	return c.sendResponses() && requested
}

// schedule has work called, at the latest before the shard's owner sleeps.
func (c *rcConn) schedule() {
	if !c.scheduled {
		c.scheduled = true
		c.demux.due = append(c.demux.due, c)
	}
}

// resend: see path.
func (c *rcConn) resend() {
	c.recovering = true // a late NAK about what was in flight behind is no news
	c.goBack()
}

// collect: see path. What has arrived was taken when it did.
func (c *rcConn) takeAcks() bool { return false }

// silence: see path. What was completed to the owner is acknowledged all the same;
// of the rest the peer finds out when nobody answers.
func (c *rcConn) stopResponding() {
	c.retransmitTimer.stop()
	c.probe.stop()
	c.leaveCongestion()
	if c.ackDue && c.resources.nextPending() == nil {
		c.sendAck()
	}
	c.demux.conn.flush()
}

// detach: see path.
func (c *rcConn) detach() {
	c.closed = true
	c.retransmitTimer.stop()
	c.probe.stop()
	c.leaveCongestion()
	c.demux.releaseCongestion(c.shared)
	c.demux.detach(c.q.num)
	c.demux.conn.close(&c.to)
}

// packet gives the place for a packet to the peer, or false for want of room.
func (c *rcConn) newPacket(op wire.Opcode, payload int, num psn.Value) (wire.Packet, bool) {
	b := c.demux.conn.buffer(&c.to, op.Size(payload))
	if b == nil {
		return wire.Packet{}, false
	}
	p := wire.Build(b, op, payload)
	bth := p.BTH()
	bth.SetDestQP(c.q.attr.DestQPN)
	bth.SetPSN(num)
	return p, true
}

func (c *rcConn) push(p wire.Packet) { c.demux.conn.push(&c.to, p) }

// packets is how many packets a message has, and a READ's response (IBTA vol. 1,
// 9.7.2): one even if there is nothing in it.
func (c *rcConn) packetCount(total uint32) uint64 {
	return max(1, (uint64(total)+uint64(c.mtu)-1)>>c.mtuShift)
}

var _ path = (*rcConn)(nil)
