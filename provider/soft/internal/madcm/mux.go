//go:build linux

package madcm

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/random"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Config has the settings of a Mux, and the parts of the device that it uses. All
// fields must be set.
type Config struct {
	Attr      verbs.DeviceAttr // attributes of the device
	AlsoLocal bool             // true if the device has the local path too
	// Largest number of half-open connections and SIDR requests of one listener, and the
	// largest number of them from one source address.
	MaxHalfOpen, MaxHalfOpenPerAddress int
	// Largest number of connections that one source address may have, counted over all
	// listeners.
	MaxConnsPerAddress int
	Port               uint16     // UDP port of the wire path on this host and on all peers
	Ports              *udp.Ports // UDP ports of the device
	// limit of access errors; requests of a source above the limit are refused
	Errors *access.ErrorLimit
	Counts *counters.Set // counters of the wire path
	// Counters of the local path. They count requests that had to use that path.
	LocalCounts *counters.Set
}

// A Mux is the multiplexer of a device. It passes received management datagrams to
// connections and listeners: it adds jobs to the inboxes of their channels.
//
// A goroutine that holds the lock of the Mux must not lock a channel or call the
// engine.
type Mux struct {
	Config
	network madNetwork
	clock   func() time.Time

	mu       sync.Mutex
	channels map[*connmgr.Channel]*madChannel // open channels of the device
	ports    map[netip.Addr]*madPort
	conns    map[uint32]*madConn  // connections and SIDR requests, by communication ID of this side
	byPeer   map[peerKey]*madConn // connections, by communication ID of the peer
	// connections that have not ended, by queue pair of the peer
	byQP      map[peerKey]*madConn
	lookups   map[peerKey]*madConn              // received SIDR requests whose IDs are not destroyed, by request ID
	listeners map[wire.ServiceID][]*madListener // open listeners
	sources   sourceCounts                      // counts of the connections of each source
	proven    *provenSources
	refused   *refusedRequests
	limit     *answerLimit
}

// A peerKey identifies a communication ID or a queue pair of a peer. It includes the
// peer's address, because a host could forge the GUID of another host.
type peerKey struct {
	from   netip.Addr
	guid   uint64
	number uint32
}

// New returns the wire path of a device.
func New(cfg *Config) *Mux {
	return &Mux{
		Config: *cfg, network: &udpMADs{cfg.Ports, cfg.Port, cfg.Counts}, clock: time.Now,
		sources: newSourceCounts(cfg.MaxConnsPerAddress),
		proven:  newProvenSources(), refused: newRefusedRequests(), limit: newAnswerLimit(),
		channels:  make(map[*connmgr.Channel]*madChannel),
		ports:     make(map[netip.Addr]*madPort),
		conns:     make(map[uint32]*madConn),
		byPeer:    make(map[peerKey]*madConn),
		byQP:      make(map[peerKey]*madConn),
		lookups:   make(map[peerKey]*madConn),
		listeners: make(map[wire.ServiceID][]*madListener),
	}
}

// open opens the UDP port at a local address, unless the port is already open. It adds
// one user of the channel ch to the port.
func (mux *Mux) open(local netip.Addr, ch *madChannel) (*madPort, error) {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	return mux.openLocked(local, ch)
}

// openLocked does the work of open. The caller holds the multiplexer's lock.
func (mux *Mux) openLocked(local netip.Addr, ch *madChannel) (*madPort, error) {
	p := mux.ports[local]
	if p == nil {
		socket, err := mux.network.open(local)
		if err != nil {
			return nil, err
		}
		p = &madPort{madSocket: socket, mux: mux, local: local, mtu: pathMTU(interfaceMTU(local))}
		mux.ports[local] = p
	}
	if err := ch.usePort(p); err != nil {
		p.closeUnwatched()
		return nil, err
	}
	return p, nil
}

// closeUnwatched closes the port if no channel watches it. The caller holds the
// multiplexer's lock.
func (p *madPort) closeUnwatched() {
	if p.channels > 0 {
		return
	}
	delete(p.mux.ports, p.local)
	p.madSocket.close()
	if a := p.requests.Load(); a != nil {
		a.socket.close()
	}
}

// Receive handles a packet that has arrived for queue pair 1, which receives the
// connection management messages of other hosts. Receive does not keep the packet. It
// returns false if the packet is invalid, for example because of a wrong Q_Key (IBTA vol.
// 1, 9.6.1.4, 13.5.1).
func (mux *Mux) Receive(p wire.Packet, from *udp.Header) (taken bool) {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	if !(lockedMux{mux}).Wants(p, from.From, from.To) {
		mux.Counts.Inc(counters.CMRequestDropped)
		return true
	}
	return mux.receiveLocked(p, from)
}

// A lockedMux is a Mux whose lock the caller holds.
type lockedMux struct{ *Mux }

func (mux lockedMux) Receive(p wire.Packet, from *udp.Header) (taken bool) {
	return mux.receiveLocked(p, from)
}

func (mux *Mux) receiveLocked(p wire.Packet, from *udp.Header) (taken bool) {
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

// dispatch passes a message of connection management to its connection or listener.
func (mux *Mux) dispatch(m *wire.MAD, in *udp.Header) {
	from, to := in.From, in.To
	port := mux.ports[to]
	if port == nil {
		return
	}
	switch m.Attribute() {
	case wire.AttrREQ, wire.AttrSIDRREQ:
		mux.onRequest(m, port, from)
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
			// No connection with these IDs exists. The peer retransmits the DREQ until it
			// gets a DREP.
			mux.sendDREP(port, from, m)
		}
	case wire.AttrRTU, wire.AttrMRA, wire.AttrDREP:
		mux.toConn(m, secondID(m), port, from)
	}
}

// firstID and secondID return the communication IDs of the sender and of the receiver. A
// REQ and a SIDR_REQ have only the sender's ID.

func firstID(m *wire.MAD) uint32  { return binary.BigEndian.Uint32(m[wire.MADDataOffset:]) }
func secondID(m *wire.MAD) uint32 { return binary.BigEndian.Uint32(m[wire.MADDataOffset+4:]) }

// toConn passes a MAD to the connection with the communication ID id. It returns false if
// the connection does not exist, or uses another port or peer.
func (mux *Mux) toConn(m *wire.MAD, id uint32, port *madPort, from netip.Addr) bool {
	c := mux.conns[id]
	if c == nil || c.port != port || c.remote != from {
		return false
	}
	c.enqueueMAD(m)
	return true
}

// onREJ passes a REJ to its connection. If the peer does not know the communication ID
// of this side, the REJ identifies the connection by the GUID and the communication ID
// of the peer (IBTA vol. 1, 12.6.7.3).
func (mux *Mux) onREJ(m *wire.MAD, port *madPort, from netip.Addr) {
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

// reject answers the message m, which belongs to no connection, with a REJ. The parameter
// what is the type of the message.
func (mux *Mux) reject(port *madPort, to netip.Addr, m *wire.MAD, what wire.Answered, reason cm.RejectReason) {
	if !mux.mayAnswer(to) {
		return
	}
	r := wire.REJ{RemoteID: firstID(m), Rejected: what, Reason: uint16(reason)}
	if what != wire.AnsweredREQ {
		r.LocalID = secondID(m)
	}
	if reason == cm.RejectInvalidMTU {
		setMTUInfo(&r, port.mtuTo(to))
	}
	var out wire.MAD
	r.Encode(&out, m.TID())
	port.send(&out, to)
}

// mayAnswer reports whether the answerLimit allows an answer to a message that belongs to
// no connection. It counts the answer, which the caller must send, or counts that it is
// dropped.
func (mux *Mux) mayAnswer(to netip.Addr) bool {
	ok := mux.limit.allow(to, mux.clock())
	if !ok {
		mux.Counts.Inc(counters.CMAnswerDropped)
	}
	return ok
}

// answer sends an answer to a message that belongs to no connection, unless the
// answerLimit forbids it.
func (mux *Mux) answer(port *madPort, to netip.Addr, m *wire.MAD) {
	if mux.mayAnswer(to) {
		port.send(m, to)
	}
}

// sendDREP answers the DREQ of an unknown connection.
func (mux *Mux) sendDREP(port *madPort, to netip.Addr, m *wire.MAD) {
	r := wire.DREP{LocalID: secondID(m), RemoteID: firstID(m)}
	var out wire.MAD
	r.Encode(&out, m.TID())
	mux.answer(port, to, &out)
}

// newID returns an unused communication ID. It is random, so that other hosts can not
// guess it.
func (mux *Mux) newID() uint32 {
	for {
		if id := random.Uint32(); id != 0 && mux.conns[id] == nil {
			return id
		}
	}
}

// listenerFor returns the listener for requests to a local address, or nil. The result
// otherAddr is true if the service has listeners only at other addresses.
func (mux *Mux) listenerFor(service wire.ServiceID, to netip.Addr) (found *madListener, otherAddr bool) {
	_, port, _ := service.Port()
	sameService := mux.listeners[service]
	i := slices.IndexFunc(sameService, func(l *madListener) bool { return l.addr.Covers(netip.AddrPortFrom(to, port)) })
	if i < 0 {
		return nil, len(sameService) > 0
	}
	return sameService[i], false
}
