//go:build linux

package madcm

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/random"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Config has the settings of a Mux, and the parts of the device that it uses. All
// fields must be set.
type Config struct {
	Host      *hostport.Host   // host of the device
	Attr      verbs.DeviceAttr // attributes of the device
	AlsoLocal bool             // true if the device has the local path too
	// Largest number of half-open connections and SIDR requests of one listener, and the
	// largest number of them from one source address.
	MaxHalfOpen, MaxHalfOpenPerAddress int
	// Largest number of connections that one source address may have, counted over all
	// listeners.
	MaxConnsPerAddress int
	Network            Network
	Port               uint16        // UDP port of the wire path on this host and on all peers
	Random             random.Source // source of the communication IDs
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
	clock func() time.Time

	mu       sync.Mutex
	channels map[*connmgr.Channel]*channel // open channels of the device
	ports    map[netip.Addr]*port
	conns    map[uint32]*conn  // connections and SIDR requests, by communication ID of this side
	byPeer   map[peerKey]*conn // connections, by communication ID of the peer
	// connections that have not ended, by queue pair of the peer
	byQP      map[peerKey]*conn
	lookups   map[peerKey]*conn              // received SIDR requests whose IDs are not destroyed, by request ID
	listeners map[wire.ServiceID][]*listener // open listeners
	sources   sourceCounts                   // counts of the connections of each source
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
		Config: *cfg, clock: time.Now,
		sources: newSourceCounts(cfg.MaxConnsPerAddress),
		proven:  newProvenSources(), refused: newRefusedRequests(), limit: newAnswerLimit(),
		channels:  make(map[*connmgr.Channel]*channel),
		ports:     make(map[netip.Addr]*port),
		conns:     make(map[uint32]*conn),
		byPeer:    make(map[peerKey]*conn),
		byQP:      make(map[peerKey]*conn),
		lookups:   make(map[peerKey]*conn),
		listeners: make(map[wire.ServiceID][]*listener),
	}
}

// open opens the UDP port at a local address, unless the port is already open. It adds
// one user of the channel ch to the port.
func (mux *Mux) open(local netip.Addr, ch *channel) (*port, error) {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	return mux.openLocked(local, ch)
}

// openLocked does the work of open. The caller holds the multiplexer's lock.
func (mux *Mux) openLocked(local netip.Addr, ch *channel) (*port, error) {
	p := mux.ports[local]
	if p == nil {
		socket, err := mux.Network.Open(local)
		if err != nil {
			return nil, err
		}
		p = &port{socket: socket, mux: mux, local: local, mtu: pathMTU(mux.Host.InterfaceMTU(local))}
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
func (p *port) closeUnwatched() {
	if p.channels > 0 {
		return
	}
	delete(p.mux.ports, p.local)
	p.socket.Close()
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
func (mux *Mux) toConn(m *wire.MAD, id uint32, port *port, from netip.Addr) bool {
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
func (mux *Mux) onREJ(m *wire.MAD, port *port, from netip.Addr) {
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
func (mux *Mux) reject(port *port, to netip.Addr, m *wire.MAD, what wire.Answered, reason cm.RejectReason) {
	if !mux.mayAnswer(port, to) {
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
	port.socket.Send(&out, to)
}

// mayAnswer reports whether a message that belongs to no connection may be answered: the
// port at which it has arrived is still open, and the answerLimit allows the answer. It
// counts the answer, which the caller must send, or counts that the limit forbids it.
func (mux *Mux) mayAnswer(port *port, to netip.Addr) bool {
	if mux.ports[port.local] != port {
		// The port was closed while a request waited in an inbox. Its descriptor may belong to
		// another file by now.
		return false
	}
	ok := mux.limit.allow(to, mux.clock())
	if !ok {
		mux.Counts.Inc(counters.CMAnswerDropped)
	}
	return ok
}

// answer sends an answer to a message that belongs to no connection; see mayAnswer.
func (mux *Mux) answer(port *port, to netip.Addr, m *wire.MAD) {
	if mux.mayAnswer(port, to) {
		port.socket.Send(m, to)
	}
}

// sendDREP answers the DREQ of an unknown connection.
func (mux *Mux) sendDREP(port *port, to netip.Addr, m *wire.MAD) {
	r := wire.DREP{LocalID: secondID(m), RemoteID: firstID(m)}
	var out wire.MAD
	r.Encode(&out, m.TID())
	mux.answer(port, to, &out)
}

// register gives a connection a new communication ID, and adds it to the multiplexer. The
// caller holds the multiplexer's lock.
func (mux *Mux) register(c *conn) {
	c.ownID = mux.newID()
	mux.conns[c.ownID] = c
}

// newID returns an unused communication ID. It is random, so that other hosts can not
// guess it.
func (mux *Mux) newID() uint32 {
	for {
		if id := mux.Random.Uint32(); id != 0 && mux.conns[id] == nil {
			return id
		}
	}
}

// listenerFor returns the listener for requests to a local address, or nil. The result
// otherAddr is true if the service has listeners only at other addresses.
func (mux *Mux) listenerFor(service wire.ServiceID, to netip.Addr) (found *listener, otherAddr bool) {
	_, port, _ := service.Port()
	sameService := mux.listeners[service]
	i := slices.IndexFunc(sameService, func(l *listener) bool { return l.addr.Covers(netip.AddrPortFrom(to, port)) })
	if i < 0 {
		return nil, len(sameService) > 0
	}
	return sameService[i], false
}

// A Network opens the sockets for management datagrams: UDP, or a simulation.
type Network interface {
	// Open opens the socket of a local address.
	Open(local netip.Addr) (Socket, error)
	// OpenRequests opens a RequestSocket at a local address. If it returns nil, requests are
	// sent from the Socket.
	OpenRequests(local netip.Addr) (*RequestSocket, error)
}

// A Socket sends and receives management datagrams at a local address. Only one
// goroutine at a time may use it.
type Socket interface {
	// FD returns a descriptor that is readable when datagrams have arrived, or -1 if the
	// owner of the socket runs the Mux then.
	FD() int
	// Receive passes received datagrams to a udp.GSISink, at most ReadBatch, and returns their
	// number. It does not block.
	Receive(to udp.GSISink) int
	// Send sends a datagram. If an error occurs, the datagram is lost.
	Send(m *wire.MAD, to netip.Addr)
	// RouteMTU returns the MTU in bytes of the route to an address, or 0 if it is not
	// known.
	RouteMTU(to netip.Addr) int
	Close()
}

// UDP returns the network that uses UDP. The parameter port is the UDP port of all peers.
func UDP(host *hostport.Host, ports *udp.Ports, port uint16, counts *counters.Set) Network {
	return &udpNetwork{host, ports, port, counts}
}

// udpNetwork is the network that uses UDP. Its sockets are those of udp.Ports.
type udpNetwork struct {
	host   *hostport.Host
	ports  *udp.Ports
	port   uint16 // UDP port of all peers
	counts *counters.Set
}

func (n *udpNetwork) Open(local netip.Addr) (Socket, error) {
	socket, err := n.ports.OpenGSI(local, ReadBatch, PacketSize, n.counts)
	if err != nil {
		return nil, err
	}
	return &udpSocket{host: n.host, socket: socket}, nil
}

const (
	// ReadBatch is the largest number of datagrams that one call of receive() reads.
	ReadBatch = 32
	// readRounds is the largest number of calls of receive() in one call of OnReady. OnReady
	// reads many datagrams at once, because reading is much cheaper than handling a
	// request; see requestBatch.
	readRounds = 16
	// PacketSize is the size of a buffer for a packet with a MAD.
	PacketSize = 320
	// drainRounds is the largest number of calls of receive() that drain() makes.
	drainRounds = 64
)

type udpSocket struct {
	host   *hostport.Host
	socket *udp.GSISocket
	psn    psn.Value
}

func (s *udpSocket) FD() int { return s.socket.FD() }
func (s *udpSocket) Close()  { s.socket.Close() }

func (s *udpSocket) Receive(to udp.GSISink) int { return s.socket.Receive(to) }

// Send implements Socket. The packet sequence number increases with each datagram
// (IBTA vol. 1, 9.8.2.1).
func (s *udpSocket) Send(m *wire.MAD, to netip.Addr) {
	b := s.socket.Buffer()
	if b == nil {
		return
	}
	s.socket.Send(Packet(b, m, s.psn), to)
	s.psn = s.psn.Add(1)
}

// RouteMTU implements Socket.
func (s *udpSocket) RouteMTU(to netip.Addr) int {
	return s.host.RouteMTU(s.socket.Local().Addr(), to)
}

// A port is a UDP port at a local address, opened for connection management.
type port struct {
	socket Socket
	mux    *Mux
	local  netip.Addr
	mtu    verbs.MTU // path MTU of the interface of the address; see mtuTo
	// number of channels that watch the port
	channels int
	// requests handles the socket from which requests are sent. It is nil until
	// openRequestPort has opened this socket. It is written with the multiplexer's lock held.
	requests atomic.Pointer[requestPort]
}

// roceOverhead is the number of bytes of an interface's MTU that are reserved for
// headers, as in the kernel's rdma_cm.
const roceOverhead = 96

// pathMTU returns the largest path MTU whose packets fit into IP packets of the given
// length in bytes.
func pathMTU(bytes int) verbs.MTU {
	mtu := connmgr.LargestMTU
	for mtu > minPathMTU && mtu.Bytes() > bytes-roceOverhead {
		mtu--
	}
	return mtu
}

// mtuTo returns the largest path MTU that this side can use to a remote address. The
// limit is the MTU of the interface or the MTU of the route, whichever is smaller. The
// two sides may negotiate a smaller path MTU; see retryWithSmallerMTU.
func (p *port) mtuTo(remote netip.Addr) verbs.MTU {
	bytes := p.socket.RouteMTU(remote)
	if bytes == 0 {
		return p.mtu
	}
	return min(p.mtu, pathMTU(bytes))
}

// OnReady implements fdevent.Handler.
func (p *port) OnReady(int, uint32) {
	for range readRounds {
		if p.receiveBatch() < ReadBatch {
			return
		}
	}
}

// receiveBatch handles up to ReadBatch datagrams that have arrived, and returns their
// number.
func (p *port) receiveBatch() int {
	p.mux.mu.Lock()
	defer p.mux.mu.Unlock()
	return p.socket.Receive(lockedMux{p.mux})
}

// drain handles all datagrams that have arrived, up to drainRounds * ReadBatch = 2,048.
// A socket with the default buffer size holds fewer datagrams.
func (p *port) drain() {
	for range drainRounds {
		if p.receiveBatch() == 0 {
			return
		}
	}
}

var _ fdevent.Handler = (*port)(nil)

// A portUsers has the UDP ports that a channel watches. Connections and listeners of the
// channel are the users of a port. The locks of the channel and of the multiplexer guard
// a portUsers.
//
// A port without users stays open for up to unusedPortTime, because opening and closing
// it for each connection takes many system calls.
type portUsers struct {
	users map[*port]int   // number of users of each port
	timer timerheap.Timer // timer for closing the ports without users
}

// unusedPortTime is how long a channel keeps a UDP port open at most after the last
// connection has ended. Arbitrary.
const unusedPortTime = time.Second

func (ch *channel) initPorts() {
	ch.ports.users = make(map[*port]int)
	ch.ports.timer.Owner = timerheap.Func(ch.closeUnusedPorts)
}

// usePort adds one user to the port. If the channel does not watch the port yet, usePort
// makes the channel watch it. The caller holds the locks of the channel and of the
// multiplexer.
func (ch *channel) usePort(p *port) error {
	if _, watched := ch.ports.users[p]; !watched {
		if fd := p.socket.FD(); fd >= 0 {
			if err := ch.Watch(fd, p); err != nil {
				return err
			}
		}
		p.channels++
	}
	ch.ports.users[p]++
	ch.watchRequests(p)
	return nil
}

// leavePort removes one user of the port. If it was the last user, the port stays open
// for unusedPortTime, unless the channel is closed. The caller holds the locks of the
// channel and of the multiplexer.
func (ch *channel) leavePort(p *port) {
	ch.ports.users[p]--
	switch {
	case ch.ports.users[p] > 0:
	case ch.closed:
		ch.unwatchPort(p)
	case !ch.ports.timer.Running():
		ch.StartTimer(&ch.ports.timer, unusedPortTime)
	}
}

// closeUnusedPorts makes the channel stop watching the ports without users. The caller
// holds the lock of the channel.
func (ch *channel) closeUnusedPorts() {
	ch.mux.mu.Lock()
	defer ch.mux.mu.Unlock()
	for p, users := range ch.ports.users {
		if users == 0 {
			ch.unwatchPort(p)
		}
	}
}

// unwatchPort makes the channel stop watching a port. It closes the port if no other
// channel watches it. The caller holds the locks of the channel and of the multiplexer.
func (ch *channel) unwatchPort(p *port) {
	delete(ch.ports.users, p)
	if fd := p.socket.FD(); fd >= 0 {
		ch.Unwatch(fd)
	}
	if a := p.requests.Load(); a != nil {
		ch.Unwatch(a.socket.fd)
	}
	p.channels--
	p.closeUnwatched()
}

// close removes one user of the channel from the port; see leavePort.
func (p *port) close(ch *channel) {
	p.mux.mu.Lock()
	defer p.mux.mu.Unlock()
	ch.leavePort(p)
}

// closeNow removes one user of the channel from the port. If it was the last user, the
// channel stops watching the port at once, so that another process can open the port.
func (p *port) closeNow(ch *channel) {
	p.mux.mu.Lock()
	defer p.mux.mu.Unlock()
	ch.leavePort(p)
	if users, watched := ch.ports.users[p]; watched && users == 0 {
		ch.unwatchPort(p)
	}
}

// movePort moves one user of a port from the channel src to the channel dst. The caller
// holds the locks of both channels.
func movePort(p *port, src, dst *channel) error {
	p.mux.mu.Lock()
	defer p.mux.mu.Unlock()
	if err := dst.usePort(p); err != nil {
		return err
	}
	src.leavePort(p)
	return nil
}
