//go:build linux

package rcpath

import (
	"math/bits"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Conns has what the RC connections in packets of a shard share. It belongs to the shard.
type Conns struct {
	shard *qp.Shard
	demux *packets.Demux
	heard func(qpn uint32) // reports the first packet of a peer
	// congestion control, by peer address
	congestions map[netip.Addr]*congestion
	held        heldPackets
}

// NewConns returns the state of a shard without connections. The function heard tells
// connection management that the first packet of a queue pair's peer has arrived; see
// connmgr.DataHearer.
func NewConns(s *qp.Shard, heard func(qpn uint32)) *Conns {
	return &Conns{shard: s, demux: &s.Demux, heard: heard}
}

// Conn is the wire path of an RC queue pair. It belongs to the shard. It numbers
// packets with sequences of 64 bits, which do not wrap; see packets.NearestSeq.
type Conn struct {
	q         *qp.QP
	all       *Conns
	demux     *packets.Demux
	to        udp.Route
	mtu       uint32 // path MTU in bytes, a power of two
	mtuShift  int
	scheduled bool // true while the connection is in demux.due
	peerSent  bool // true after the first request packet of the peer has arrived
	closed    bool

	req     requester
	retry   retransmission
	cong    connCongestion
	resp    responder
	acks    ackDelay
	credits credits
}

// New makes the wire path of a queue pair that enters RTR.
func New(all *Conns, q *qp.QP, to udp.Route, flow CreditFlow, attr *verbs.QPAttr) (*Conn, error) {
	mtu := uint32(attr.PathMTU.Bytes())
	c := &Conn{q: q, all: all, demux: all.demux, to: to, mtu: mtu, mtuShift: bits.TrailingZeros32(mtu)}
	c.retry.timer.Init(q.Shard, c)
	c.resp.init(attr)
	flow.Sends = flow.Sends && !q.SharesReceives() // A side with an SRQ does not advertise its buffers.
	c.credits.init(flow, q.Shard, c)
	if err := c.demux.Open(&c.to); err != nil {
		return nil, err
	}
	c.cong.join(all.acquireCongestion(to.Remote), c)
	c.demux.Attach(q.Num(), c)
	return c, nil
}

// OnTimer implements timerheap.Owner.
func (c *Conn) OnTimer(t *timerheap.Timer) {
	if t == &c.retry.timer.Timer {
		c.onRetransmitTimer()
	} else {
		c.onCreditTimer()
	}
}

// Receive implements packets.QP. It drops packets from other addresses and packets that are
// not RC (IBTA vol. 1, 9.6.1.1, 9.6.1.2).
func (c *Conn) Receive(p wire.Packet, from *udp.Header) {
	if !c.q.IsServing() || from.From != c.to.Remote || p.Opcode().Transport() != wire.RC {
		return
	}
	if c.to.PeerSocket != from.Socket {
		c.to.PeerSocket = from.Socket
	}
	if p.Opcode().Response() {
		c.receiveResponse(p)
		return
	}
	if !c.peerSent {
		c.checkFirstPacket(p)
	}
	at := int64(0)
	if c.to.WantTime {
		at = from.Time
	}
	c.receiveRequest(p, at)
}

// checkFirstPacket tells connection management when the first packet of the peer
// arrives. On the accepting side, the PSN of this packet shows that the peer has
// received the reply (REP); see connmgr.DataHearer.
func (c *Conn) checkFirstPacket(p wire.Packet) {
	if p.BTH().PSN() == c.resp.psn(c.resp.expected) {
		c.peerSent = true
		c.all.heard(c.q.Num())
	}
}

// Transmit implements qp.Path. It sends requests only. The next call of shard.drive() sends
// responses.
func (c *Conn) Transmit() {
	if !c.sendRequests() {
		c.schedule()
	}
	c.demux.FlushFirst()
}

// SendDue implements packets.QP. A connection that is closed or has failed sends nothing.
func (c *Conn) SendDue() (done bool) {
	done = c.closed || !c.q.IsServing() || c.send()
	c.scheduled = !done
	return done
}

// send sends what can be sent now: first requests, and then responses. It returns false
// if something is left.
func (c *Conn) send() (done bool) {
	requested := c.sendRequests()
	return c.sendResponses() && requested
}

// schedule makes sure that SendDue is called, in the next call of shard.drive() or
// before the owner sleeps.
func (c *Conn) schedule() {
	if !c.scheduled {
		c.scheduled = true
		c.demux.Schedule(c)
	}
}

// onRoom implements roomWaiter.
func (c *Conn) onRoom() { c.schedule() }

// Resend implements qp.WirePath. The peer has refused the oldest unacknowledged packet with
// an RNR NAK. That packet and all packets after it are sent again.
func (c *Conn) Resend() {
	// The peer may send sequence NAKs for packets that are in flight now. The state
	// recoveryResend makes this side ignore them.
	c.retry.goBack(recoveryResend)
	c.goBack()
}

// Acked implements qp.Path.
func (c *Conn) Acked() uint64 { return c.req.ackedEnd }

// StopResponding implements qp.ReliablePath. It still sends a due acknowledgement, so that
// executed requests complete successfully at the peer.
func (c *Conn) StopResponding() {
	c.stopSending()
	// An acknowledgement also acknowledges earlier READs and atomics. So it is not sent while
	// a response to one of them is due.
	res := c.resp.resources.nextPending()
	if c.acks.due() && (res == nil || res.first >= c.resp.dataEnd) && !c.sendAck() {
		// There is no buffer for the acknowledgement. Flush sends queued packets of other
		// connections, and makes room.
		c.demux.Flush()
		c.sendAck()
	}
	c.demux.Flush()
}

// stopSending stops the timers of the requester, and removes the connection from the
// congestion control of the peer's address. It also drops the packets that are held.
func (c *Conn) stopSending() {
	c.all.held.drop(c)
	c.retry.timer.Stop()
	c.credits.stop()
	c.cong.leave()
}

// Detach implements qp.Path. It closes the connection and its route.
func (c *Conn) Detach() {
	c.closed = true
	c.stopSending()
	c.all.releaseCongestion(c.cong.shared)
	c.demux.Detach(c.q.Num())
	c.demux.Close(&c.to)
}

// newPacket returns a packet with space for the payload. The caller fills the packet,
// and calls push(). If the packets.Conn has no room, newPacket returns false.
func (c *Conn) newPacket(op wire.Opcode, payload int, num psn.Value) (wire.Packet, bool) {
	b := c.demux.Buffer(&c.to, op.Size(payload))
	if b == nil {
		return wire.Packet{}, false
	}
	p := wire.Build(b, op, payload)
	bth := p.BTH()
	bth.SetDestQP(c.q.Attributes().DestQPN)
	bth.SetPSN(num)
	return p, true
}

func (c *Conn) push(p wire.Packet) { c.demux.Push(&c.to, p) }

// packetCount returns the number of packets of a message or READ response, at least one
// (IBTA vol. 1, 9.7.2).
func (c *Conn) packetCount(total uint32) uint64 {
	return max(1, (uint64(total)+uint64(c.mtu)-1)>>c.mtuShift)
}

var _ qp.WirePath = (*Conn)(nil)
