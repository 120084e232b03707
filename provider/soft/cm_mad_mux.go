//go:build linux

package soft

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// A madMux is a device's connection management on the wire: queue pair 1 of
// each local address, and who waits for what arrives there. Whichever channel
// finds a datagram hands it to the exchange, which leaves it in the inbox of the
// channel that it is for. Its lock comes after those of channels and shards.
type madMux struct {
	guid    uint64
	network madNetwork
	access  *accessLimit
	clock   func() time.Time
	counts  *counters
	// maxAdmitted is Config.MaxConnsPerAddress: the largest value in admitted.
	maxAdmitted int

	mu     sync.Mutex
	ports  map[netip.Addr]*madPort
	conns  map[uint32]*madConn  // carriers by own communication ID, or by request ID of a lookup
	byPeer map[peerKey]*madConn // carriers by the peer's communication ID
	// byQP has the carriers by the peer's queue pair, until the connection is over.
	byQP      map[peerKey]*madConn
	lookups   map[lookupKey]*madConn            // of the asked side, until answered
	listeners map[wire.ServiceID][]*madListener // that listen
	byQPN     map[uint32]*madConn               // by own queue pair, once it is settled
	// admitted counts, by source, the connections whose peer has requested them and is
	// proven; see sourceOf and proof.
	admitted map[netip.Addr]int
	refused  *refusedRequests
	limit    *answerLimit
}

// A peerKey identifies an object of a peer: a communication ID, or a queue pair. A
// device chooses a new GUID when it starts, so keys do not repeat. The address is the
// source address of the peer's datagrams. It is part of the key because the other
// fields are chosen by the peer: without the address, a request from one host could
// name the connection of another host.
type peerKey struct {
	from   netip.Addr
	guid   uint64
	number uint32
}

// A lookupKey names a lookup: its number is random, and nothing else names the
// peer but its address.
type lookupKey struct {
	from   netip.Addr
	number uint32
}

func newMADMux(guid uint64, cfg *Config, network madNetwork, counts *counters) *madMux {
	return &madMux{
		guid: guid, network: network, clock: time.Now, counts: counts,
		maxAdmitted: cfg.MaxConnsPerAddress, admitted: make(map[netip.Addr]int),
		refused: newRefusedRequests(), limit: newAnswerLimit(),
		ports:     make(map[netip.Addr]*madPort),
		conns:     make(map[uint32]*madConn),
		byPeer:    make(map[peerKey]*madConn),
		byQP:      make(map[peerKey]*madConn),
		lookups:   make(map[lookupKey]*madConn),
		listeners: make(map[wire.ServiceID][]*madListener),
		byQPN:     make(map[uint32]*madConn),
	}
}

// open opens a local address, or adds a user to it, and has the channel take
// what arrives there.
func (x *madMux) open(local netip.Addr, ch *channel) (*madPort, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.ports[local]
	if p == nil {
		socket, err := x.network.open(local)
		if err != nil {
			return nil, err
		}
		p = &madPort{madSocket: socket, mux: x, local: local, mtu: pathMTU(local)}
		x.ports[local] = p
	}
	p.users++
	if err := ch.watchPort(p); err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// close undoes open.
func (p *madPort) close(ch *channel) {
	p.mux.mu.Lock()
	defer p.mux.mu.Unlock()
	ch.unwatchPort(p)
	p.release()
}

// release is for the holder of the lock.
func (p *madPort) release() {
	if p.users--; p.users == 0 {
		delete(p.mux.ports, p.local)
		p.madSocket.close()
		if a := p.requests.Load(); a != nil {
			a.socket.close()
		}
	}
}

// receive takes a packet for queue pair 1, and drops what is not for connection
// management (IBTA vol. 1, 9.6.1.4, 13.5.1).
func (x *madMux) receive(p wire.Packet, from *ipHeader) (taken bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.receiveLocked(p, from)
}

// A lockedMux is one whose lock the caller holds.
type lockedMux struct{ *madMux }

func (x lockedMux) receive(p wire.Packet, from *ipHeader) (taken bool) {
	return x.receiveLocked(p, from)
}

func (x *madMux) receiveLocked(p wire.Packet, from *ipHeader) (taken bool) {
	bth, deth := p.BTH(), p.DETH()
	if bth.DestQP() != wire.GSIQPN || p.Opcode() != wire.UDSendOnly || deth.QKey() != wire.GSIQKey ||
		!wire.PKeysMatch(bth.PKey(), wire.DefaultPKey) {
		return false
	}
	if m, err := wire.DecodeMAD(p.Payload()); err == nil {
		x.dispatch(m, from)
	}
	return true
}

// sort finds out whom a datagram is for. Ones of the kinds that are not named do
// not occur on RoCE, and are dropped.
func (x *madMux) dispatch(m *wire.MAD, in *ipHeader) {
	from, to := in.from, in.to
	port := x.ports[to]
	if port == nil {
		return
	}
	switch m.Attribute() {
	case wire.AttrREQ:
		x.onREQ(m, port, from)
	case wire.AttrSIDRREQ:
		x.onSIDRREQ(m, port, from)
	case wire.AttrSIDRREP:
		x.toConn(m, firstID(m), port, from)
	case wire.AttrREP:
		if !x.toConn(m, secondID(m), port, from) {
			x.reject(port, from, m, wire.AnsweredREP, cm.RejectInvalidCommID)
		}
	case wire.AttrREJ:
		x.onREJ(m, port, from)
	case wire.AttrDREQ:
		if !x.toConn(m, secondID(m), port, from) {
			// A side that has forgotten the connection lets the other end it,
			// too.
			x.sendDREP(port, from, m)
		}
	case wire.AttrRTU, wire.AttrMRA, wire.AttrDREP:
		x.toConn(m, secondID(m), port, from)
	}
}

// The communication ids are the first words of every message: the sender's, and
// but for requests the receiver's.

func firstID(m *wire.MAD) uint32  { return binary.BigEndian.Uint32(m[wire.MADDataOffset:]) }
func secondID(m *wire.MAD) uint32 { return binary.BigEndian.Uint32(m[wire.MADDataOffset+4:]) }

// forward leaves a datagram for the carrier with a communication id, and reports
// whether there is one that has this peer.
func (x *madMux) toConn(m *wire.MAD, id uint32, port *madPort, from netip.Addr) bool {
	c := x.conns[id]
	if c == nil || c.port != port || c.remote != from {
		return false
	}
	c.enqueueMAD(m)
	return true
}

// onREJ: a peer that gives up before it has an answer knows no id of ours, and
// names itself (IBTA vol. 1, 12.6.7.3).
func (x *madMux) onREJ(m *wire.MAD, port *madPort, from netip.Addr) {
	if x.toConn(m, secondID(m), port, from) {
		return
	}
	var r wire.REJ
	r.Decode(m)
	if cm.RejectReason(r.Reason) != cm.RejectTimeout || r.InfoLength < 8 {
		return
	}
	c := x.byPeer[peerKey{from, binary.BigEndian.Uint64(r.Info[:]), r.LocalID}]
	if c != nil && c.port == port {
		c.enqueueMAD(m)
	}
}

// reject refuses a message of a peer without keeping anything.
func (x *madMux) reject(port *madPort, to netip.Addr, m *wire.MAD, what wire.Answered, reason cm.RejectReason) {
	r := wire.REJ{RemoteID: firstID(m), Rejected: what, Reason: uint16(reason)}
	if what != wire.AnsweredREQ {
		r.LocalID = secondID(m)
	}
	if reason == cm.RejectInvalidMTU {
		tellMTU(&r, port.mtu)
	}
	var out wire.MAD
	r.Encode(&out, m.TID())
	x.answer(port, to, &out)
}

// answer sends a message that belongs to no carrier, if the answerLimit allows it.
func (x *madMux) answer(port *madPort, to netip.Addr, m *wire.MAD) {
	if !x.limit.allow(to, x.clock()) {
		x.counts.inc(cmAnswerDropped)
		return
	}
	port.send(m, to)
}

// confirm answers a DREQ.
func (x *madMux) sendDREP(port *madPort, to netip.Addr, m *wire.MAD) {
	r := wire.DREP{LocalID: secondID(m), RemoteID: firstID(m)}
	var out wire.MAD
	r.Encode(&out, m.TID())
	x.answer(port, to, &out)
}

// newID is a communication id that nobody has. It is random, so that it does not
// come again soon, and can not be guessed.
func (x *madMux) newID() uint32 {
	for {
		if id := randomUint32(); id != 0 && x.conns[id] == nil {
			return id
		}
	}
}

// gate finds the listener for a request, or nil and whether one listens to the
// service on another address.
func (x *madMux) listenerFor(service wire.ServiceID, to netip.AddrPort) (found *madListener, elsewhere bool) {
	gates := x.listeners[service]
	i := slices.IndexFunc(gates, func(g *madListener) bool { return g.addr.covers(to) })
	if i < 0 {
		return nil, len(gates) > 0
	}
	return gates[i], false
}

// heard: a queue pair was sent something by its peer, who is connected then,
// whatever became of the message that says so (IBTA vol. 1, 12.9.7.2).
func (x *madMux) peerSentData(qpn uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.byQPN[qpn]; c != nil {
		c.enqueue(jobInternal, c.peerSentData)
	}
}

// creditFlow are the terms of a queue pair: none, where its connection was not made
// here.
func (x *madMux) flowTerms(qpn uint32) creditFlow {
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.byQPN[qpn]; c != nil {
		return c.flow
	}
	return creditFlow{}
}

// carries reports whether a queue pair's connection is made on the wire.
func (x *madMux) overWire(qpn uint32) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.byQPN[qpn] != nil
}
