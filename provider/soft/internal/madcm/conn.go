//go:build linux

package madcm

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// connState is the state of a conn. Every state ends when release() is called.
// After release(), no timer of the conn expires, and none of its jobs runs.
type connState uint8

const (
	// connDelivering is the first state. The ID gets the messages of the peer. StopDelivery
	// leads to connAnswering. If a DREQ is unanswered, Close leads to connOrphan. Otherwise
	// Close releases the conn.
	connDelivering connState = iota
	// connAnswering means that the ID expects no further message. The conn itself
	// retransmits nothing, but answers retransmissions of the peer. Close releases the
	// conn.
	connAnswering
	// connOrphan means that the ID was destroyed before the peer has answered a DREQ. The
	// conn is in channel.orphans and retransmits the DREQ. It is released when the answer
	// arrives, and at the latest after the last retransmission.
	connOrphan
)

// A conn exchanges the messages of one ID as datagrams. It retransmits messages until
// they are answered, and drops duplicates of received messages.
//
// The lock of the channel guards a conn. The multiplexer's lock guards the embedded
// addrValidation. A field that the multiplexer reads is written with both locks held.
type conn struct {
	jobTarget
	state  connState
	port   *port       // UDP port of this side
	remote netip.Addr  // address of the peer
	id     *connmgr.ID // ID of the connection; nil in the state connOrphan

	ownID uint32 // communication ID of this side, or request ID of its SIDR_REQ
	// communication ID of the peer, or request ID of its SIDR_REQ; 0 if unknown
	peerID uint32
	// service ID in a SIDR request of the peer; 0 for other requests
	service  wire.ServiceID
	peerGUID uint64 // node GUID of the peer
	peerQPN  uint32 // number of the peer's queue pair
	// largestMTU is the path MTU of the first REQ that this side has sent, or 0 if this
	// side has sent no REQ.
	largestMTU verbs.MTU
	qpn        uint32          // number of the local queue pair; 0 before Attach
	binding    connmgr.Binding // binding of the local queue pair, set by Attach
	lastTID    uint64          // transaction ID of the peer's last DREQ

	listener *listener // listener that has received the request; nil on the active side
	addrValidation

	retransmit retransmitter
}

// Connect implements connmgr.Transport. It opens the UDP port, and fails if another
// process has it.
func (mux *Mux) Connect(i *connmgr.ID, local, remote netip.Addr) (connmgr.Conn, error) {
	c := &conn{jobTarget: jobTarget{mux: mux, ch: mux.channelOf(i.Channel())}, id: i, remote: remote}
	c.retransmit.timer.Owner = c
	var err error
	if c.port, err = mux.open(local, c.ch); err != nil {
		return nil, err
	}
	return c, nil
}

// Dial implements connmgr.Conn.
func (c *conn) Dial(m connmgr.Message) error {
	c.port.openRequestPort(c.ch)
	c.mux.mu.Lock()
	c.mux.register(c)
	c.mux.mu.Unlock()
	if r, ok := m.(*connmgr.REQ); ok {
		c.largestMTU = c.port.mtuTo(c.remote)
		r.MTU = c.largestMTU
		c.id.SetPathMTU(r.MTU)
		// The answer must arrive within RequestTimeout. If the first answer is an MRA,
		// onMRA extends this time.
		c.id.StartTimer(connmgr.RequestTimeout)
	}
	return c.Send(m)
}

// isLookup reports whether the conn belongs to a SIDR request of the peer.
func (c *conn) isLookup() bool { return c.service != 0 }

// Attach implements connmgr.Conn. It opens no socket, because the queue pair opens its own
// socket.
func (c *conn) Attach(qpn uint32) (*connmgr.Binding, error) {
	c.qpn, c.binding = qpn, connmgr.Binding{Flow: c.id.Flow(), Hearer: c}
	return &c.binding, nil
}

// Send implements connmgr.Conn. It retransmits requests, REPs, RTUs and DREQs.
func (c *conn) Send(m connmgr.Message) error {
	c.stopRetransmission()
	c.encode(&c.retransmit.mad, m)
	c.repeat()
	switch m.(type) {
	case *connmgr.REQ, *connmgr.SIDRREQ:
		c.retransmitRequest()
	case *connmgr.REP, *connmgr.DREQ:
		c.retransmitOther()
	case *connmgr.RTU:
		c.retransmitRTU()
	}
	return nil
}

// transmit sends a datagram. If maySend allows no more messages to the peer, transmit
// drops the datagram.
func (c *conn) transmit(m *wire.MAD) {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	if !c.maySend(0) {
		c.mux.Counts.Inc(counters.CMAnswerDropped)
		return
	}
	c.sent++
	if a := c.port.requests.Load(); a != nil && isRequest(m) {
		a.socket.send(m, c.remote)
		return
	}
	c.port.socket.Send(m, c.remote)
}

func (c *conn) encode(mad *wire.MAD, m connmgr.Message) {
	e := Ends{Own: c.ownID, Peer: c.peerID, PeerQPN: c.peerQPN, TID: c.requestTID(), Service: c.service}
	switch m := m.(type) {
	case *connmgr.REJ:
		c.encodeREJ(mad, m, &e)
		return
	case *connmgr.DREP:
		e.TID = c.lastTID
	}
	Encode(mad, m, &e, &c.mux.Attr)
}

// requestTID returns the transaction ID of the request with which this connection began.
func (c *conn) requestTID() uint64 {
	if c.listener != nil {
		return tid(c.peerID)
	}
	return tid(c.ownID)
}

func (c *conn) encodeREJ(mad *wire.MAD, m *connmgr.REJ, e *Ends) {
	var info []byte
	e.Rejected = wire.AnsweredOther
	switch {
	case c.id.State() == connmgr.StateREQReceived:
		// The peer does not know the communication ID of this side yet.
		e.Own, e.Rejected = 0, wire.AnsweredREQ
	case c.id.State() == connmgr.StateREPReceived || c.id.State() == connmgr.StateREQSent && c.peerID != 0:
		e.Rejected = wire.AnsweredREP
	case m.Reason == cm.RejectTimeout:
		// This side does not know the peer's communication ID. The peer finds its
		// request by the GUID of this side (IBTA vol. 1, 12.6.7.3).
		info = binary.BigEndian.AppendUint64(nil, c.mux.Attr.NodeGUID)
	}
	encodeREJ(mad, m, e, info)
}

// Path implements connmgr.Conn.
func (c *conn) Path() string { return connmgr.WirePath }

// StopDelivery implements connmgr.Conn. The conn continues to answer retransmissions of the
// peer. If the connection has ended, the peer may use its queue pair in another request.
func (c *conn) StopDelivery() {
	c.state = connAnswering
	c.stopRetransmission()
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	if c.id.State() >= connmgr.StateWithdrawn {
		forget(c.mux.byQP, peerKey{c.remote, c.peerGUID, c.peerQPN}, c)
	}
}

func (c *conn) Move(to *connmgr.Channel) error {
	dst := c.mux.channelOf(to)
	if err := movePort(c.port, c.ch, dst); err != nil {
		return err
	}
	c.setChannel(dst).MoveTimer(&c.retransmit.timer, to)
	return nil
}

// Close implements connmgr.Conn. If the peer has not answered a DREQ, the conn becomes an
// orphan. Otherwise it is released.
func (c *conn) Close() {
	if c.retransmit.running() && c.retransmit.mad.Attribute() == wire.AttrDREQ && len(c.ch.orphans) < maxOrphans {
		c.state, c.id = connOrphan, nil
		c.retransmit.remaining = orphanRetransmits
		c.ch.orphans[c] = struct{}{}
		return
	}
	c.rememberRefusal()
	c.release()
}

// rememberRefusal stores the REJ if the request was refused; see refusedRequests.
func (c *conn) rememberRefusal() {
	if c.listener == nil || c.retransmit.mad.Attribute() != wire.AttrREJ {
		return
	}
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	c.mux.refused.add(peerKey{c.remote, c.peerGUID, c.peerID}, &c.retransmit.mad, c.mux.clock())
}

// maxOrphans is the largest number of orphans of a channel. They take about 3 MiB
// together. The number is arbitrary.
const maxOrphans = 4096

// release ends the connection and removes it from the multiplexer.
func (c *conn) release() {
	c.stopRetransmission()
	delete(c.ch.orphans, c)
	c.mux.mu.Lock()
	c.closeTarget()
	c.releaseAddr()
	delete(c.mux.conns, c.ownID)
	forget(c.mux.byPeer, peerKey{c.remote, c.peerGUID, c.peerID}, c)
	forget(c.mux.byQP, peerKey{c.remote, c.peerGUID, c.peerQPN}, c)
	forget(c.mux.lookups, peerKey{from: c.remote, number: c.peerID}, c)
	c.mux.mu.Unlock()
	c.port.close(c.ch)
}

// forget deletes a key from a map if its value is the connection c.
func forget[K comparable](of map[K]*conn, key K, c *conn) {
	if of[key] == c {
		delete(of, key)
	}
}

var _ connmgr.Conn = (*conn)(nil)

// The interval between two retransmissions doubles from firstInterval up to maxInterval.
//
// The first requestRetransmits intervals of a request are at most requestInterval. So a
// connection is established soon after an outage of the network.
const (
	firstInterval      = 256 * time.Millisecond
	requestInterval    = 1024 * time.Millisecond
	requestRetransmits = 16
	maxInterval        = 4608 * time.Millisecond
	// orphanRetransmits is the number of retransmissions of a DREQ after the ID was
	// destroyed. They take 22 s.
	orphanRetransmits = 8
	// rtuRetransmits is the number of retransmissions of an RTU if no data of the peer
	// arrives. They take 22 s.
	rtuRetransmits = 8
)

// A retransmitter has the last message of a connection, and the timer that retransmits it
// until it is answered. The lock of the connection's channel guards it.
type retransmitter struct {
	mad       wire.MAD
	interval  time.Duration // time until the next retransmission
	remaining int           // number of further retransmissions; negative if not limited
	// Number of further intervals that are at most requestInterval. Later intervals are
	// at most maxInterval.
	fastRemaining int
	timer         timerheap.Timer // timer of the connection's channel
}

func (r *retransmitter) hasRTU() bool { return r.mad.Attribute() == wire.AttrRTU }

func (r *retransmitter) running() bool { return r.timer.Running() }

// begin prepares the first interval. The parameter fast is the initial value of
// fastRemaining. The parameter most is the largest number of retransmissions; it is
// negative if they are not limited.
func (r *retransmitter) begin(fast, most int) time.Duration {
	r.interval, r.remaining, r.fastRemaining = firstInterval, most, fast
	return r.interval
}

// next counts a retransmission and returns the time until the next one.
func (r *retransmitter) next() time.Duration {
	r.remaining--
	most := maxInterval
	if r.fastRemaining > 0 {
		r.fastRemaining--
		most = requestInterval
	}
	r.interval = min(2*r.interval, most)
	return r.interval
}

// retransmitRequest starts to retransmit a request, retransmitRTU an RTU, and
// retransmitOther another message.

func (c *conn) retransmitRequest() { c.retransmitAfter(c.retransmit.begin(requestRetransmits, -1)) }

func (c *conn) retransmitRTU() { c.retransmitAfter(c.retransmit.begin(0, rtuRetransmits)) }

func (c *conn) retransmitOther() { c.retransmitAfter(c.retransmit.begin(0, -1)) }

// resumeRetransmission starts the timer if it has stopped at the limit for half-open peers.
// It is called when a copy of the peer's request has arrived, because each copy raises that
// limit.
func (c *conn) resumeRetransmission() {
	if !c.retransmit.running() {
		c.retransmitAfter(c.retransmit.interval)
	}
}

func (c *conn) retransmitAfter(d time.Duration) { c.ch.StartTimer(&c.retransmit.timer, d) }

func (c *conn) stopRetransmission() { c.ch.StopTimer(&c.retransmit.timer) }

// repeat sends the last message again.
func (c *conn) repeat() { c.transmit(&c.retransmit.mad) }

// OnTimer implements timerheap.Owner. It retransmits the last message, and starts the timer
// for the next retransmission, if there is one.
func (c *conn) OnTimer(*timerheap.Timer) {
	switch {
	case c.retransmit.remaining == 0 || !c.mayRetransmit():
		// An orphan ends here. For any other connection, the next call of
		// resumeRetransmission starts the timer again.
		if c.state == connOrphan {
			c.release()
		}
	case isRequest(&c.retransmit.mad) && !c.ch.acceptsFrom(c.remote):
		// The peer's address now belongs to this host, where a process of another user could
		// receive the retransmission.
		c.id.NoListener(connmgr.ErrLocalOnly)
	default:
		c.repeat()
		c.retransmitAfter(c.retransmit.next())
	}
}

// codeTime returns the time that a five-bit code means: 4.096 µs * 2^code (IBTA vol. 1,
// 12.6.5). The code 0 has no special meaning.
func codeTime(code uint8) time.Duration {
	return max(verbs.AckTimeout(code), verbs.AckTimeoutUnit)
}
