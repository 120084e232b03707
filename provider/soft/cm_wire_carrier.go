//go:build linux

package soft

import (
	"encoding/binary"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// A wireCarrier carries the messages of one ID as datagrams, which get lost,
// repeated and reordered. It repeats what has to be answered, and answers again
// what the peer repeats, so that the ID sees each message once. How long an
// answer is waited for is the ID's concern.
//
// The lock of its channel covers it. What the exchange looks at changes with the
// exchange's lock held, too.
type wireCarrier struct {
	x      *madExchange
	ch     *channel // with the exchange's lock
	port   *madPort
	remote netip.Addr
	id     *id // nil when it is gone, and the last message is to be repeated

	own     uint32         // communication id, or request id
	peer    uint32         // the peer's, 0 as long as it is not known
	service wire.ServiceID // of a lookup
	guid    uint64         // the peer's
	peerQPN uint32
	flow    flowTerms // with the exchange's lock
	qpn     uint32
	lastTID uint64 // of the peer's DREQ

	gate *wireGate // gate that took the request; nil on the active side
	proof

	repeat repeater
	ready  bool // RTU was sent
	muted  bool
	closed bool // with the exchange's lock
}

// dialWire sends a request to the ID's remote address.
func dialWire(i *id, m message) error {
	ch := i.ch.Load()
	c := &wireCarrier{x: ch.dev.mads, ch: ch, id: i, remote: plain(i.remote.Addr())}
	var err error
	if c.port, err = c.x.open(plain(i.local.Addr()), ch); err != nil {
		return err
	}
	c.port.readyToAsk(ch)
	c.register()
	i.carrier = c
	if r, ok := m.(*requestMsg); ok {
		r.mtu = c.port.mtu
		i.terms.mtu = r.mtu
		i.expect(requestTimeout) // the timeout lasts until the peer confirms that it has the request
	}
	return c.send(m)
}

// register makes the carrier known, under an id of its own.
func (c *wireCarrier) register() {
	c.repeat.init(c)
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	c.own = c.x.newID()
	c.x.carriers[c.own] = c
}

// attach: see carrier. The queue pair opens the sockets itself.
func (c *wireCarrier) attach(qpn uint32) error {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	c.qpn, c.flow = qpn, c.id.terms.flow
	c.x.byNumber[qpn] = c
	return nil
}

// send: see carrier. That a datagram is lost shows later, if at all.
func (c *wireCarrier) send(m message) error {
	c.repeat.stop()
	c.encode(&c.repeat.mad, m)
	c.repeat.now()
	switch m.(type) {
	case *requestMsg, *lookupMsg:
		c.repeat.start(askRepeats)
	case *replyMsg, *disconnectMsg:
		c.repeat.start(0)
	case *readyMsg:
		c.ready = true
		c.repeat.startReady()
	}
	return nil
}

// transmit sends a datagram. It drops the datagram if the peer is not proven and has
// been sent as much as it may be; see proof.
func (c *wireCarrier) transmit(m *wire.MAD) {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if !c.maySend(0) {
		c.x.counts.inc(cmAnswerDropped)
		return
	}
	c.sent++
	if a := c.port.asking.Load(); a != nil && asks(m) {
		a.socket.send(m, c.remote)
		return
	}
	c.port.send(m, c.remote)
}

// encode writes a message.
func (c *wireCarrier) encode(mad *wire.MAD, m message) {
	switch m := m.(type) {
	case *requestMsg:
		encodeREQ(mad, m, c.x.guid, c.own)
	case *replyMsg:
		encodeREP(mad, m, c.x.guid, c.own, c.peer)
	case *readyMsg:
		r := wire.RTU{LocalID: c.own, RemoteID: c.peer}
		r.Encode(mad, c.tid())
	case *rejectMsg:
		c.encodeREJ(mad, m)
	case *disconnectMsg:
		r := wire.DREQ{LocalID: c.own, RemoteID: c.peer, RemoteQPN: c.peerQPN}
		r.Encode(mad, tid(c.own))
	case *disconnectedMsg:
		r := wire.DREP{LocalID: c.own, RemoteID: c.peer}
		r.Encode(mad, c.lastTID)
	case *lookupMsg:
		encodeSIDRREQ(mad, m, c.own)
	case *lookupReplyMsg:
		encodeSIDRREP(mad, m, c.service, c.peer)
	}
}

// tid is the transaction of the request that began the connection.
func (c *wireCarrier) tid() uint64 {
	if c.id != nil && !c.id.active {
		return tid(c.peer)
	}
	return tid(c.own)
}

func (c *wireCarrier) encodeREJ(mad *wire.MAD, m *rejectMsg) {
	r := wire.REJ{LocalID: c.own, RemoteID: c.peer, Rejected: wire.AnsweredOther, Reason: uint16(m.reason)}
	switch {
	case c.id.phase == phaseRequested:
		r.LocalID, r.Rejected = 0, wire.AnsweredREQ // none was told
	case c.id.phase == phaseReplied || c.id.phase == phaseRequestSent && c.peer != 0:
		r.Rejected = wire.AnsweredREP
	case m.reason == cm.RejectTimeout:
		// The peer may not have told its id.
		binary.BigEndian.PutUint64(r.Info[:], c.x.guid)
		r.InfoLength = 8
	}
	copy(r.PrivateData[:], m.private)
	r.Encode(mad, c.tid())
}

// hungUp: see carrier. Nobody hangs up on the wire.
func (c *wireCarrier) hungUp() {}

// credentials implements carrier. On the wire path they are not known.
func (c *wireCarrier) credentials() (cm.Credentials, bool) { return cm.Credentials{}, false }

// mute implements carrier. Repeated messages of the peer are still answered. After
// the end of the connection the peer may use its queue pair for another one.
func (c *wireCarrier) mute() {
	c.muted = true
	c.repeat.stop()
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if c.id.phase >= phaseWithdrawn {
		forget(c.x.byQP, peerKey{c.remote, c.guid, c.peerQPN}, c)
	}
}

func (c *wireCarrier) move(to *channel) error {
	if err := to.watchPort(c.port); err != nil {
		return err
	}
	c.x.mu.Lock()
	from := c.ch
	c.ch = to
	c.x.mu.Unlock()
	from.unwatchPort(c.port)
	from.timers.move(&c.repeat.timer, &to.timers)
	return nil
}

// close: see carrier. A wish to disconnect that was not answered is repeated for
// a while without the ID.
func (c *wireCarrier) close() {
	if c.repeat.running() && c.repeat.mad.Attribute() == wire.AttrDREQ && len(c.ch.orphans) < maxOrphans {
		c.id = nil
		c.repeat.left = orphanRepeats
		c.ch.orphans[c] = struct{}{}
		return
	}
	c.rememberRefusal()
	c.drop()
}

// rememberRefusal keeps the REJ of a refused request; see refusedRequests.
func (c *wireCarrier) rememberRefusal() {
	if c.gate == nil || c.repeat.mad.Attribute() != wire.AttrREJ {
		return
	}
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	c.x.refused.add(peerKey{c.remote, c.guid, c.peer}, &c.repeat.mad, c.x.clock())
}

// maxOrphans bounds the connections of a channel that are ended after their IDs.
const maxOrphans = 4096

// drop ends the carrier.
func (c *wireCarrier) drop() {
	c.repeat.stop()
	delete(c.ch.orphans, c)
	c.x.mu.Lock()
	c.closed = true
	c.leavePlace()
	delete(c.x.carriers, c.own)
	forget(c.x.byPeer, peerKey{c.remote, c.guid, c.peer}, c)
	forget(c.x.byQP, peerKey{c.remote, c.guid, c.peerQPN}, c)
	forget(c.x.lookups, lookupKey{c.remote, c.peer}, c)
	forget(c.x.byNumber, c.qpn, c)
	c.x.mu.Unlock()
	c.port.close(c.ch)
}

// forget deletes the entry of a key if it is c's: it may be another's by now.
func forget[K comparable](of map[K]*wireCarrier, key K, c *wireCarrier) {
	if of[key] == c {
		delete(of, key)
	}
}

var _ carrier = (*wireCarrier)(nil)
