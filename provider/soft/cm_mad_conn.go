//go:build linux

package soft

import (
	"encoding/binary"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// A madConn carries the messages of one ID as datagrams, which get lost,
// repeated and reordered. It repeats what has to be answered, and answers again
// what the peer repeats, so that the ID sees each message once. How long an
// answer is waited for is the ID's concern.
//
// The lock of its channel covers it. What the exchange looks at changes with the
// exchange's lock held, too.
type madConn struct {
	mux    *madMux
	ch     *channel // with the exchange's lock
	port   *madPort
	remote netip.Addr
	id     *id // nil when it is gone, and the last message is to be repeated

	ownID    uint32         // communication id, or request id
	peerID   uint32         // the peer's, 0 as long as it is not known
	service  wire.ServiceID // of a lookup
	peerGUID uint64         // the peer's
	peerQPN  uint32
	flow     creditFlow // with the exchange's lock
	qpn      uint32
	lastTID  uint64 // of the peer's DREQ

	listener *madListener // gate that took the request; nil on the active side
	addrValidation

	retransmit      retransmitter
	rtuSent         bool // RTU was sent
	deliveryStopped bool
	closed          bool // with the exchange's lock
}

// dialMAD sends a request to the ID's remote address.
func dialMAD(i *id, m message) error {
	ch := i.ch.Load()
	c := &madConn{mux: ch.dev.mux, ch: ch, id: i, remote: withoutZone(i.remote.Addr())}
	var err error
	if c.port, err = c.mux.open(withoutZone(i.local.Addr()), ch); err != nil {
		return err
	}
	c.port.openRequestPort(ch)
	c.register()
	i.conn = c
	if r, ok := m.(*reqMsg); ok {
		r.mtu = c.port.mtu
		i.negotiated.mtu = r.mtu
		i.startTimer(requestTimeout) // the timeout lasts until the peer confirms that it has the request
	}
	return c.send(m)
}

// register makes the carrier known, under an id of its own.
func (c *madConn) register() {
	c.retransmit.init(c)
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	c.ownID = c.mux.newID()
	c.mux.conns[c.ownID] = c
}

// attach: see carrier. The queue pair opens the sockets itself.
func (c *madConn) attach(qpn uint32) error {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	c.qpn, c.flow = qpn, c.id.negotiated.flow
	c.mux.byQPN[qpn] = c
	return nil
}

// send: see carrier. That a datagram is lost shows later, if at all.
func (c *madConn) send(m message) error {
	c.retransmit.stop()
	c.encode(&c.retransmit.mad, m)
	c.retransmit.sendNow()
	switch m.(type) {
	case *reqMsg, *sidrReqMsg:
		c.retransmit.start(requestRetransmits)
	case *repMsg, *dreqMsg:
		c.retransmit.start(0)
	case *rtuMsg:
		c.rtuSent = true
		c.retransmit.startRTU()
	}
	return nil
}

// transmit sends a datagram. It drops the datagram if the peer is not proven and has
// been sent as much as it may be; see proof.
func (c *madConn) transmit(m *wire.MAD) {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	if !c.maySend(0) {
		c.mux.counts.inc(cmAnswerDropped)
		return
	}
	c.sent++
	if a := c.port.requests.Load(); a != nil && isRequest(m) {
		a.socket.send(m, c.remote)
		return
	}
	c.port.send(m, c.remote)
}

// encode writes a message.
func (c *madConn) encode(mad *wire.MAD, m message) {
	switch m := m.(type) {
	case *reqMsg:
		encodeREQ(mad, m, c.mux.guid, c.ownID)
	case *repMsg:
		encodeREP(mad, m, c.mux.guid, c.ownID, c.peerID)
	case *rtuMsg:
		r := wire.RTU{LocalID: c.ownID, RemoteID: c.peerID}
		r.Encode(mad, c.requestTID())
	case *rejMsg:
		c.encodeREJ(mad, m)
	case *dreqMsg:
		r := wire.DREQ{LocalID: c.ownID, RemoteID: c.peerID, RemoteQPN: c.peerQPN}
		r.Encode(mad, tid(c.ownID))
	case *drepMsg:
		r := wire.DREP{LocalID: c.ownID, RemoteID: c.peerID}
		r.Encode(mad, c.lastTID)
	case *sidrReqMsg:
		encodeSIDRREQ(mad, m, c.ownID)
	case *sidrRepMsg:
		encodeSIDRREP(mad, m, c.service, c.peerID)
	}
}

// tid is the transaction of the request that began the connection.
func (c *madConn) requestTID() uint64 {
	if c.id != nil && !c.id.active {
		return tid(c.peerID)
	}
	return tid(c.ownID)
}

func (c *madConn) encodeREJ(mad *wire.MAD, m *rejMsg) {
	r := wire.REJ{LocalID: c.ownID, RemoteID: c.peerID, Rejected: wire.AnsweredOther, Reason: uint16(m.reason)}
	switch {
	case c.id.state == stateREQReceived:
		r.LocalID, r.Rejected = 0, wire.AnsweredREQ // none was told
	case c.id.state == stateREPReceived || c.id.state == stateREQSent && c.peerID != 0:
		r.Rejected = wire.AnsweredREP
	case m.reason == cm.RejectTimeout:
		// The peer may not have told its id.
		binary.BigEndian.PutUint64(r.Info[:], c.mux.guid)
		r.InfoLength = 8
	}
	copy(r.PrivateData[:], m.private)
	r.Encode(mad, c.requestTID())
}

// peerVanished: see carrier. Nobody hangs up on the wire.
func (c *madConn) peerVanished() {}

// credentials implements carrier. On the wire path they are not known.
func (c *madConn) credentials() (cm.Credentials, bool) { return cm.Credentials{}, false }

// mute implements carrier. Repeated messages of the peer are still answered. After
// the end of the connection the peer may use its queue pair for another one.
func (c *madConn) stopDelivery() {
	c.deliveryStopped = true
	c.retransmit.stop()
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	if c.id.state >= stateWithdrawn {
		forget(c.mux.byQP, peerKey{c.remote, c.peerGUID, c.peerQPN}, c)
	}
}

func (c *madConn) move(to *channel) error {
	if err := to.watchPort(c.port); err != nil {
		return err
	}
	c.mux.mu.Lock()
	from := c.ch
	c.ch = to
	c.mux.mu.Unlock()
	from.unwatchPort(c.port)
	from.timers.move(&c.retransmit.timer, &to.timers)
	return nil
}

// close: see carrier. A wish to disconnect that was not answered is repeated for
// a while without the ID.
func (c *madConn) close() {
	if c.retransmit.running() && c.retransmit.mad.Attribute() == wire.AttrDREQ && len(c.ch.orphans) < maxOrphans {
		c.id = nil
		c.retransmit.remaining = orphanRetransmits
		c.ch.orphans[c] = struct{}{}
		return
	}
	c.rememberRefusal()
	c.release()
}

// rememberRefusal keeps the REJ of a refused request; see refusedRequests.
func (c *madConn) rememberRefusal() {
	if c.listener == nil || c.retransmit.mad.Attribute() != wire.AttrREJ {
		return
	}
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	c.mux.refused.add(peerKey{c.remote, c.peerGUID, c.peerID}, &c.retransmit.mad, c.mux.clock())
}

// maxOrphans bounds the connections of a channel that are ended after their IDs.
const maxOrphans = 4096

// drop ends the carrier.
func (c *madConn) release() {
	c.retransmit.stop()
	delete(c.ch.orphans, c)
	c.mux.mu.Lock()
	c.closed = true
	c.removeHalfOpen()
	delete(c.mux.conns, c.ownID)
	forget(c.mux.byPeer, peerKey{c.remote, c.peerGUID, c.peerID}, c)
	forget(c.mux.byQP, peerKey{c.remote, c.peerGUID, c.peerQPN}, c)
	forget(c.mux.lookups, lookupKey{c.remote, c.peerID}, c)
	forget(c.mux.byQPN, c.qpn, c)
	c.mux.mu.Unlock()
	c.port.close(c.ch)
}

// forget deletes the entry of a key if it is c's: it may be another's by now.
func forget[K comparable](of map[K]*madConn, key K, c *madConn) {
	if of[key] == c {
		delete(of, key)
	}
}

var _ cmConn = (*madConn)(nil)
