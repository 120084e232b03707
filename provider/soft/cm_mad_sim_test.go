//go:build linux

package soft

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// A madSim is two parties whose management datagrams go over a network that a
// test rules, in virtual time. Their data goes over UDP.
type madSim struct {
	t              *testing.T
	client, server *party
	clock          *fakeClock
	inFlight       []simDatagram
	sent           []wire.Attribute
	// fate says how often a datagram arrives; nil: once.
	copies func(m *wire.MAD, to netip.Addr) int
}

// A flight is a datagram on its way.
type simDatagram struct {
	mad      wire.MAD
	from, to netip.Addr
}

var (
	clientAddr = netip.MustParseAddr("127.8.0.1")
	serverAddr = netip.MustParseAddr("127.8.0.2")
)

func newMADSim(t *testing.T, change ...func(*Config)) *madSim {
	t.Helper()
	w := &madSim{t: t, clock: &fakeClock{now: time.Unix(1_000_000, 0)}}
	cfg := &Config{Vectors: 1, Path: PathWire, WirePort: freePort(t)}
	for _, f := range change {
		f(cfg)
	}
	w.client, w.server = openParty(t, cfg), openParty(t, cfg)
	for _, s := range []*party{w.client, w.server} {
		s.p.dev.mux.network = &simMADs{w, s.p.dev.udp}
		s.tc.clock = func() time.Time { return w.clock.now }
		s.p.dev.mux.clock = s.tc.clock
	}
	t.Cleanup(func() {
		// When the IDs have gone, until they have told each other.
		for w.settle(); !t.Failed() && w.advance(); w.settle() {
		}
	})
	return w
}

// freePort is a UDP port that nobody has at the moment, on any address.
func freePort(t *testing.T) uint16 {
	t.Helper()
	c, err := net.ListenUDP("udp", nil)
	require.NoError(t, err)
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
}

// simMADs is the network as a device knows it.
type simMADs struct {
	w     *madSim
	ports *udpPorts
}

func (n *simMADs) open(local netip.Addr) (madSocket, error) {
	// The address is in use, as the data path has to know.
	port, err := n.ports.acquire(local)
	return &simSocket{n.w, port}, err
}

// openRequests returns nil, because the simulated network has no ICMP errors.
func (n *simMADs) openRequests(netip.Addr) (*requestSocket, error) { return nil, nil }

type simSocket struct {
	w    *madSim
	port *udpPort
}

func (s *simSocket) fd() int                { return -1 }
func (s *simSocket) receive(packetSink) int { return 0 }
func (s *simSocket) close()                 { s.port.release() }

func (s *simSocket) send(m *wire.MAD, to netip.Addr) {
	s.w.sent = append(s.w.sent, m.Attribute())
	times := 1
	if s.w.copies != nil {
		times = s.w.copies(m, to)
	}
	for range times {
		s.w.inFlight = append(s.w.inFlight, simDatagram{*m, s.port.local.Addr(), to})
	}
}

// lose has the first n datagrams of a kind lost.
func (w *madSim) lose(attr wire.Attribute, n int) {
	w.copies = func(m *wire.MAD, _ netip.Addr) int {
		if m.Attribute() == attr && n > 0 {
			n--
			return 0
		}
		return 1
	}
}

// land has the oldest datagram arrive.
func (w *madSim) deliverOne() bool {
	if len(w.inFlight) == 0 {
		return false
	}
	f := w.inFlight[0]
	w.inFlight = w.inFlight[1:]
	w.inject(&f.mad, f.from, f.to)
	return true
}

// inject has a datagram arrive at whom it is for.
func (w *madSim) inject(m *wire.MAD, from, to netip.Addr) {
	at := w.client
	if to == serverAddr {
		at = w.server
	}
	b := make([]byte, madBufSize)
	at.p.dev.mux.receive(madPacket(b, m, 0), &ipHeader{from: from, to: to})
}

// settle lets everything happen that does without the passing of time.
func (w *madSim) settle() {
	w.drive()
	for w.deliverOne() {
		w.drive()
	}
}

func (w *madSim) drive() {
	for _, s := range []*party{w.client, w.server} {
		s.tc.mu.Lock()
		require.NoError(w.t, s.tc.drive())
		s.tc.unlock()
	}
}

// pass goes to the next time at which something is due; false if there is none.
func (w *madSim) advance() bool {
	var next time.Time
	for _, s := range []*party{w.client, w.server} {
		if at, ok := s.tc.timers.next(); ok && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if next.IsZero() {
		return false
	}
	w.clock.now = next
	return true
}

// want waits for an event, in virtual time.
func (w *madSim) want(s *party, typ cm.EventType, id *cm.ID) cm.Event {
	w.t.Helper()
	w.await(s)
	return s.want(typ, id)
}

// await goes on until a party has an event to fetch.
func (w *madSim) await(s *party) {
	w.t.Helper()
	for range 10_000 {
		if w.settle(); !s.tc.queue.empty() {
			return
		}
		require.True(w.t, w.advance(), "nothing will happen any more")
	}
	require.Fail(w.t, "no event")
}

// quiet requires that nothing more happens, whatever time passes.
func (w *madSim) quiet() {
	w.t.Helper()
	for range 1000 {
		w.settle()
		w.client.quiet()
		w.server.quiet()
		if !w.advance() {
			return
		}
	}
	require.Fail(w.t, "no end of it")
}

func (w *madSim) listen(ps cm.PortSpace, backlog int) *cm.ID {
	w.t.Helper()
	return w.server.listen(ps, netip.AddrPortFrom(serverAddr, 0).String(), backlog)
}

// connecting sends a request from the client's address.
func (w *madSim) connecting(ps cm.PortSpace, dst netip.AddrPort, param *cm.ConnParam) *cm.ID {
	w.t.Helper()
	id := w.resolving(ps, dst)
	w.client.createQP(id)
	require.NoError(w.t, id.Connect(param))
	return id
}

func (w *madSim) resolved(l *cm.ID) *cm.ID { return w.resolving(l.PortSpace(), l.LocalAddr()) }

// resolving makes an ID with the client's address and the route to dst.
func (w *madSim) resolving(ps cm.PortSpace, dst netip.AddrPort) *cm.ID {
	w.t.Helper()
	s := w.client
	id := s.id(ps)
	require.NoError(w.t, id.ResolveAddr(netip.AddrPortFrom(clientAddr, 0), dst, time.Second))
	s.want(cm.AddrResolved, id)
	require.NoError(w.t, id.ResolveRoute(time.Second))
	s.want(cm.RouteResolved, id)
	return id
}

func (w *madSim) request(l *cm.ID) (*cm.ID, cm.Event) {
	w.t.Helper()
	w.await(w.server)
	return w.server.request(l)
}

func (w *madSim) accept(passive *cm.ID, param *cm.ConnParam) {
	w.t.Helper()
	w.server.createQP(passive)
	require.NoError(w.t, passive.Accept(param))
}

// connected makes a connection, whatever gets lost.
func (w *madSim) connected() (active, passive *cm.ID) {
	w.t.Helper()
	l := w.listen(cm.TCP, 0)
	active = w.connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ = w.request(l)
	w.accept(passive, nil)
	w.want(w.client, cm.Established, active)
	w.want(w.server, cm.Established, passive)
	return active, passive
}

// disconnected ends it, from the client's side.
func (w *madSim) disconnected(active, passive *cm.ID) {
	w.t.Helper()
	require.NoError(w.t, active.Disconnect())
	require.Zero(w.t, w.want(w.server, cm.Disconnected, passive).Status)
	require.NoError(w.t, passive.Disconnect())
	w.want(w.server, cm.TimewaitExit, passive)
	require.Zero(w.t, w.want(w.client, cm.Disconnected, active).Status)
	w.want(w.client, cm.TimewaitExit, active)
}
