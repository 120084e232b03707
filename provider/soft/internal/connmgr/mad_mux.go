//go:build linux

package connmgr

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/random"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

// A madMux is the multiplexer of a device. It passes the received management datagrams
// to connections and listeners, through the inboxes of their channels.
//
// A goroutine that holds the lock of the madMux must not lock a channel or the engine.
type madMux struct {
	m       *Manager
	network madNetwork
	clock   func() time.Time

	mu     sync.Mutex
	ports  map[netip.Addr]*madPort
	conns  map[uint32]*madConn  // connections by own communication ID, or by request ID of a lookup
	byPeer map[peerKey]*madConn // connections by the communication ID of the peer
	// connections that have not ended, by the queue pair of the peer
	byQP      map[peerKey]*madConn
	lookups   map[lookupKey]*madConn            // unanswered lookups of peers
	listeners map[wire.ServiceID][]*madListener // open listeners
	sources   sourceCounts                      // numbers of connections of each source
	refused   *refusedRequests
	limit     *answerLimit
}

// A peerKey identifies a communication ID or a queue pair of a peer. It includes the
// address, because a host could use the GUID of another host.
type peerKey struct {
	from   netip.Addr
	guid   uint64
	number uint32
}

// A lookupKey identifies a lookup by the peer's address and random request ID.
type lookupKey struct {
	from   netip.Addr
	number uint32
}

func newMADMux(m *Manager, network madNetwork) *madMux {
	return &madMux{
		m: m, network: network, clock: time.Now,
		sources: newSourceCounts(m.MaxConnsPerAddress),
		refused: newRefusedRequests(), limit: newAnswerLimit(),
		ports:     make(map[netip.Addr]*madPort),
		conns:     make(map[uint32]*madConn),
		byPeer:    make(map[peerKey]*madConn),
		byQP:      make(map[peerKey]*madConn),
		lookups:   make(map[lookupKey]*madConn),
		listeners: make(map[wire.ServiceID][]*madListener),
	}
}

// open opens the UDP port of a local address. If it is open already, it gets one more
// reference. The channel watches the port.
func (mux *madMux) open(local netip.Addr, ch *channel) (*madPort, error) {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	p := mux.ports[local]
	if p == nil {
		socket, err := mux.network.open(local)
		if err != nil {
			return nil, err
		}
		p = &madPort{madSocket: socket, mux: mux, local: local, mtu: pathMTU(interfaceMTU(local))}
		mux.ports[local] = p
	}
	p.refs++
	if err := ch.watchPort(p); err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// close removes a reference to the port, and makes the channel stop watching it.
func (p *madPort) close(ch *channel) {
	p.mux.mu.Lock()
	defer p.mux.mu.Unlock()
	ch.unwatchPort(p)
	p.release()
}

// release removes a reference, and closes the port after the last one. The caller holds
// the multiplexer's lock.
func (p *madPort) release() {
	if p.refs--; p.refs == 0 {
		delete(p.mux.ports, p.local)
		p.madSocket.close()
		if a := p.requests.Load(); a != nil {
			a.socket.close()
		}
	}
}

// receive handles a packet to queue pair 1. It returns false for an invalid packet (IBTA
// vol. 1, 9.6.1.4, 13.5.1).
func (mux *madMux) receive(p wire.Packet, from *udp.Header) (taken bool) {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	return mux.receiveLocked(p, from)
}

// A lockedMux is a madMux whose lock the caller holds.
type lockedMux struct{ *madMux }

func (mux lockedMux) Receive(p wire.Packet, from *udp.Header) (taken bool) {
	return mux.receiveLocked(p, from)
}

func (mux *madMux) receiveLocked(p wire.Packet, from *udp.Header) (taken bool) {
	bth, deth := p.BTH(), p.DETH()
	if bth.DestQP() != wire.GSIQPN || p.Opcode() != wire.UDSendOnly || deth.QKey() != wire.GSIQKey ||
		!wire.PKeysMatch(bth.PKey(), wire.DefaultPKey) {
		return false
	}
	if m, err := wire.DecodeMAD(p.Payload()); err == nil {
		mux.dispatch(m, from)
	}
	return true
}

// dispatch passes a MAD of communication management to its connection or listener.
func (mux *madMux) dispatch(m *wire.MAD, in *udp.Header) {
	from, to := in.From, in.To
	port := mux.ports[to]
	if port == nil {
		return
	}
	switch m.Attribute() {
	case wire.AttrREQ:
		mux.onREQ(m, port, from)
	case wire.AttrSIDRREQ:
		mux.onSIDRREQ(m, port, from)
	case wire.AttrSIDRREP:
		mux.toConn(m, firstID(m), port, from)
	case wire.AttrREP:
		if !mux.toConn(m, secondID(m), port, from) {
			mux.reject(port, from, m, wire.AnsweredREP, cm.RejectInvalidCommID)
		}
	case wire.AttrREJ:
		mux.onREJ(m, port, from)
	case wire.AttrDREQ:
		if !mux.toConn(m, secondID(m), port, from) {
			// The peer of an unknown connection retransmits its DREQ until it gets a
			// DREP.
			mux.sendDREP(port, from, m)
		}
	case wire.AttrRTU, wire.AttrMRA, wire.AttrDREP:
		mux.toConn(m, secondID(m), port, from)
	}
}

// firstID and secondID return the communication IDs of the sender and of the receiver. A
// request has no second ID.

func firstID(m *wire.MAD) uint32  { return binary.BigEndian.Uint32(m[wire.MADDataOffset:]) }
func secondID(m *wire.MAD) uint32 { return binary.BigEndian.Uint32(m[wire.MADDataOffset+4:]) }

// toConn passes a MAD to the connection with the communication ID id. It returns false
// if the port has no such connection to this peer.
func (mux *madMux) toConn(m *wire.MAD, id uint32, port *madPort, from netip.Addr) bool {
	c := mux.conns[id]
	if c == nil || c.port != port || c.remote != from {
		return false
	}
	c.enqueueMAD(m)
	return true
}

// onREJ passes a REJ to its connection. If the peer does not know this side's
// communication ID, the REJ has the peer's GUID and ID (IBTA vol. 1, 12.6.7.3).
func (mux *madMux) onREJ(m *wire.MAD, port *madPort, from netip.Addr) {
	if mux.toConn(m, secondID(m), port, from) {
		return
	}
	var r wire.REJ
	r.Decode(m)
	if cm.RejectReason(r.Reason) != cm.RejectTimeout || r.InfoLength < 8 {
		return
	}
	c := mux.byPeer[peerKey{from, binary.BigEndian.Uint64(r.Info[:]), r.LocalID}]
	if c != nil && c.port == port {
		c.enqueueMAD(m)
	}
}

// reject sends a REJ for a message of the given type that belongs to no connection.
func (mux *madMux) reject(port *madPort, to netip.Addr, m *wire.MAD, what wire.Answered, reason cm.RejectReason) {
	r := wire.REJ{RemoteID: firstID(m), Rejected: what, Reason: uint16(reason)}
	if what != wire.AnsweredREQ {
		r.LocalID = secondID(m)
	}
	if reason == cm.RejectInvalidMTU {
		setMTUInfo(&r, port.mtuTo(to))
	}
	var out wire.MAD
	r.Encode(&out, m.TID())
	mux.answer(port, to, &out)
}

// answer sends a message that belongs to no connection, if the answerLimit allows it.
func (mux *madMux) answer(port *madPort, to netip.Addr, m *wire.MAD) {
	if !mux.limit.allow(to, mux.clock()) {
		mux.m.WireCounts.Inc(counters.CMAnswerDropped)
		return
	}
	port.send(m, to)
}

// sendDREP answers the DREQ of an unknown connection.
func (mux *madMux) sendDREP(port *madPort, to netip.Addr, m *wire.MAD) {
	r := wire.DREP{LocalID: secondID(m), RemoteID: firstID(m)}
	var out wire.MAD
	r.Encode(&out, m.TID())
	mux.answer(port, to, &out)
}

// newID returns a communication ID that is not used. It is random, so other hosts can
// not guess it.
func (mux *madMux) newID() uint32 {
	for {
		if id := random.Uint32(); id != 0 && mux.conns[id] == nil {
			return id
		}
	}
}

// listenerFor returns the listener for a request, or nil. If the service has listeners
// only on other addresses, otherAddr is true.
func (mux *madMux) listenerFor(service wire.ServiceID, to netip.AddrPort) (found *madListener, otherAddr bool) {
	sameService := mux.listeners[service]
	i := slices.IndexFunc(sameService, func(l *madListener) bool { return l.addr.Covers(to) })
	if i < 0 {
		return nil, len(sameService) > 0
	}
	return sameService[i], false
}
