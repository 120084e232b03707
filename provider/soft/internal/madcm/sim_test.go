//go:build linux

package madcm

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

// A madSim is a client and a server in virtual time. A simulated network delivers their
// management datagrams. Data packets go through UDP.
type madSim struct {
	t              *testing.T
	client, server *party
	clock          *cmtest.Clock
	inFlight       []simDatagram    // datagrams that have not arrived, the oldest first
	sent           []wire.Attribute // types of all sent datagrams, in order
	// copies returns how many copies of a sent datagram arrive. If copies is nil, one copy
	// of each datagram arrives.
	copies func(m *wire.MAD, to netip.Addr) int
	// MTU in bytes of the routes to some addresses
	routeMTUs map[netip.Addr]int
	routes    int // number of routes that were looked up
}

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
	w := &madSim{t: t, clock: &cmtest.Clock{Now: time.Unix(1_000_000, 0)}}
	cfg := &Config{Port: freeport.UDP(t)}
	for _, f := range change {
		f(cfg)
	}
	w.client, w.server = openParty(t, cfg), openParty(t, cfg)
	for _, s := range []*party{w.client, w.server} {
		s.mux.Network = &simMADs{w, s.ports}
		s.TC.Probe().SetClock(func() time.Time { return w.clock.Now })
		s.mux.clock = s.TC.Probe().Clock()
	}
	t.Cleanup(func() {
		// The DREQs of closed IDs are retransmitted until their timers stop.
		for w.settle(); !t.Failed() && w.advance(); w.settle() {
		}
	})
	return w
}

// wire returns the part of the party's channel that belongs to the wire path.
func (s *party) wire() *channel { return s.mux.channelOf(s.TC) }

// simMADs is the network of a party in a madSim.
type simMADs struct {
	w     *madSim
	ports *udp.Ports
}

func (n *simMADs) Open(local netip.Addr) (Socket, error) {
	// The data path also receives at this address, so the simulation opens the UDP port.
	socket, err := n.ports.OpenGSI(local, 1, PacketSize, new(counters.Set))
	return &simSocket{n.w, socket}, err
}

// OpenRequests returns nil, because the simulated network has no ICMP errors.
func (n *simMADs) OpenRequests(netip.Addr) (*RequestSocket, error) { return nil, nil }

type simSocket struct {
	w      *madSim
	socket *udp.GSISocket
}

func (s *simSocket) FD() int                 { return -1 }
func (s *simSocket) Receive(udp.GSISink) int { return 0 }
func (s *simSocket) Close()                  { s.socket.Close() }

func (s *simSocket) RouteMTU(to netip.Addr) int {
	s.w.routes++
	return s.w.routeMTUs[to]
}

func (s *simSocket) Send(m *wire.MAD, to netip.Addr) {
	s.w.sent = append(s.w.sent, m.Attribute())
	times := 1
	if s.w.copies != nil {
		times = s.w.copies(m, to)
	}
	for range times {
		s.w.inFlight = append(s.w.inFlight, simDatagram{*m, s.socket.Local().Addr(), to})
	}
}

// lose drops the next n datagrams of a type.
func (w *madSim) lose(attr wire.Attribute, n int) {
	w.copies = func(m *wire.MAD, _ netip.Addr) int {
		if m.Attribute() == attr && n > 0 {
			n--
			return 0
		}
		return 1
	}
}

// deliverOne delivers the oldest datagram in flight. It returns false if no datagram is
// in flight.
func (w *madSim) deliverOne() bool {
	if len(w.inFlight) == 0 {
		return false
	}
	f := w.inFlight[0]
	w.inFlight = w.inFlight[1:]
	w.inject(&f.mad, f.from, f.to)
	return true
}

// inject delivers a datagram to the party at dst. The datagram has the source address
// src.
func (w *madSim) inject(m *wire.MAD, src, dst netip.Addr) {
	at := w.client
	if dst == serverAddr {
		at = w.server
	}
	p := Packet(make([]byte, PacketSize), m, 0)
	at.mux.mu.Lock()
	defer at.mux.mu.Unlock()
	if mux := (lockedMux{at.mux}); mux.Wants(p, src, dst) {
		mux.Receive(p, &udp.Header{From: src, To: dst})
	} else {
		at.mux.Counts.Inc(counters.CMRequestUnread)
	}
}

// settle delivers all datagrams and runs all jobs. It does not advance the clock.
func (w *madSim) settle() {
	w.drive()
	for w.deliverOne() {
		w.drive()
	}
}

func (w *madSim) drive() {
	for _, s := range []*party{w.client, w.server} {
		require.NoError(w.t, s.TC.Probe().Drive())
	}
}

// advance sets the clock to the time at which the next timer is due. It returns false if
// no timer is running.
func (w *madSim) advance() bool {
	var next time.Time
	for _, s := range []*party{w.client, w.server} {
		if running, when := s.TC.Probe().Timers(); running > 0 {
			if at := s.M.Start.Add(when); next.IsZero() || at.Before(next) {
				next = at
			}
		}
	}
	if next.IsZero() {
		return false
	}
	w.clock.Now = next
	return true
}

// want advances the clock until a party has an event, which must have the given type and
// ID.
func (w *madSim) want(s *party, typ cm.EventType, id *cm.ID) cm.Event {
	w.t.Helper()
	w.await(s)
	return s.Want(typ, id)
}

// await advances the clock until a party has an event.
func (w *madSim) await(s *party) {
	w.t.Helper()
	for range 10_000 {
		if w.settle(); len(s.TC.Probe().Queued()) > 0 {
			return
		}
		require.True(w.t, w.advance(), "no timer is running")
	}
	require.Fail(w.t, "no event")
}

// quiet runs the simulation until no timer is running. No event may occur in this time.
func (w *madSim) quiet() {
	w.t.Helper()
	for range 1000 {
		w.settle()
		w.client.Quiet()
		w.server.Quiet()
		if !w.advance() {
			return
		}
	}
	require.Fail(w.t, "timers are still running")
}

func (w *madSim) listen(ps cm.PortSpace, backlog int) *cm.ID {
	w.t.Helper()
	return w.server.Listen(ps, netip.AddrPortFrom(serverAddr, 0).String(), backlog)
}

// connecting makes an ID at the client's address, makes a queue pair on it, and connects
// it to dst.
func (w *madSim) connecting(ps cm.PortSpace, dst netip.AddrPort, param *cm.ConnParam) *cm.ID {
	w.t.Helper()
	id := w.resolving(ps, dst)
	w.client.CreateQP(id)
	require.NoError(w.t, id.Connect(param))
	return id
}

func (w *madSim) resolved(l *cm.ID) *cm.ID { return w.resolving(l.PortSpace(), l.LocalAddr()) }

// resolving makes an ID at the client's address, and resolves the address dst and the
// route.
func (w *madSim) resolving(ps cm.PortSpace, dst netip.AddrPort) *cm.ID {
	w.t.Helper()
	s := w.client
	id := s.ID(ps)
	require.NoError(w.t, id.ResolveAddr(netip.AddrPortFrom(clientAddr, 0), dst, time.Second))
	s.Want(cm.AddrResolved, id)
	require.NoError(w.t, id.ResolveRoute(time.Second))
	s.Want(cm.RouteResolved, id)
	return id
}

func (w *madSim) request(l *cm.ID) (*cm.ID, cm.Event) {
	w.t.Helper()
	w.await(w.server)
	return w.server.Request(l)
}

func (w *madSim) accept(passive *cm.ID, param *cm.ConnParam) {
	w.t.Helper()
	w.server.CreateQP(passive)
	require.NoError(w.t, passive.Accept(param))
}

// connected makes a connection and waits until both sides are established, even if
// datagrams are lost.
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

// disconnected disconnects the client, and waits for the events of both sides.
func (w *madSim) disconnected(active, passive *cm.ID) {
	w.t.Helper()
	require.NoError(w.t, active.Disconnect(nil))
	require.Zero(w.t, w.want(w.server, cm.Disconnected, passive).Status)
	require.NoError(w.t, passive.Disconnect(nil))
	w.want(w.server, cm.TimewaitExit, passive)
	require.Zero(w.t, w.want(w.client, cm.Disconnected, active).Status)
	w.want(w.client, cm.TimewaitExit, active)
}
