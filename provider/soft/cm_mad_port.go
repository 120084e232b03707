//go:build linux

package soft

import (
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A madNetwork takes management datagrams to peers, from the addresses of this
// host. It is UDP, or a test's.
type madNetwork interface {
	// open opens a local address.
	open(local netip.Addr) (madSocket, error)
	// openRequests opens a socket for requests from a local address. It returns nil if
	// requests are sent from the madSocket.
	openRequests(local netip.Addr) (*requestSocket, error)
}

// A madSocket is one local address. One goroutine at a time.
type madSocket interface {
	// fd becomes readable when something has arrived; -1 where it never does.
	fd() int
	// receive takes some of the datagrams that have arrived, without blocking. It returns
	// their number.
	receive(to packetSink) int
	// send sends a datagram, or loses it.
	send(m *wire.MAD, to netip.Addr)
	close()
}

// udpMADs is the network: the first socket of each address.
type udpMADs struct{ ports *udpPorts }

func (n *udpMADs) open(local netip.Addr) (madSocket, error) {
	port, err := n.ports.acquire(local)
	if err != nil {
		return nil, err
	}
	s := &udpMADSocket{port: port}
	s.out = newUDPSender(port.mads, 1, madBufSize, &n.ports.counts)
	s.in = newUDPReceiver(port.mads, port.local, madBatch, madBufSize, &n.ports.counts)
	return s, nil
}

const (
	// madBatch is how many datagrams are taken at a time.
	madBatch = 32
	// madBufSize is the room for a packet with a MAD, and not for much more.
	madBufSize = 320
)

type udpMADSocket struct {
	port *udpPort
	out  udpSender
	in   udpReceiver
	psn  psn.Value
}

func (s *udpMADSocket) fd() int { return s.port.mads }
func (s *udpMADSocket) close()  { s.port.release() }

func (s *udpMADSocket) receive(to packetSink) int { return s.in.receive(to) }

// send: datagrams are numbered, for no more use than to be told apart (IBTA vol.
// 1, 9.8.2.1). One that the system does not take now is lost like any other.
func (s *udpMADSocket) send(m *wire.MAD, to netip.Addr) {
	b := s.out.buffer()
	if b == nil {
		return
	}
	var dest udpDest
	dest.set(s.port.local, destHeader{remote: to})
	s.out.put(madPacket(b, m, s.psn), &dest)
	s.out.flush()
	s.psn = s.psn.Add(1)
}

// A madPort is a local address that connection management uses.
type madPort struct {
	madSocket
	mux      *madMux
	local    netip.Addr
	mtu      verbs.MTU // path MTU of the interface of the address
	users    int
	requests atomic.Pointer[requestPort] // nil before the first request; set with the exchange's lock held
}

// roceOverhead is what rdma_cm takes off the MTU of an interface for the headers
// of a packet; what is left has to hold the payload.
const roceOverhead = 96

// pathMTU is the largest payload that the interface of an address carries.
// rxe and the network cards do not ask the peer's, so both should be the same.
func pathMTU(local netip.Addr) verbs.MTU {
	bytes := interfaceMTU(local) - roceOverhead
	mtu := verbs.MTU4096
	for mtu > minPathMTU && mtu.Bytes() > bytes {
		mtu--
	}
	return mtu
}

// interfaceMTU is 0 when no interface has the address. All of 127.0.0.0/8 is of
// the loopback interface.
func interfaceMTU(local netip.Addr) int {
	interfaces, err := net.Interfaces()
	if err != nil {
		return 0
	}
	for _, ifi := range interfaces {
		addrs, _ := ifi.Addrs()
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && (p.Addr() == local.WithZone("") || p.Addr().IsLoopback() && p.Contains(local)) {
				return ifi.MTU
			}
		}
	}
	return 0
}

// watchPort has the channel take what arrives at a port, for whomever it is.
func (ch *channel) watchPort(p *madPort) error {
	if fd := p.fd(); fd >= 0 && ch.ports[p] == 0 {
		if err := ch.watch(fd, p); err != nil {
			return err
		}
	}
	ch.ports[p]++
	ch.watchRequests(p)
	return nil
}

func (ch *channel) unwatchPort(p *madPort) {
	if ch.ports[p]--; ch.ports[p] > 0 {
		return
	}
	delete(ch.ports, p)
	if fd := p.fd(); fd >= 0 {
		ch.unwatch(fd)
	}
	if a := p.requests.Load(); a != nil {
		ch.unwatch(a.socket.fd)
	}
}

// readable: see watched.
func (p *madPort) readable() {
	p.mux.mu.Lock()
	defer p.mux.mu.Unlock()
	p.madSocket.receive(lockedMux{p.mux})
}

// drain takes the datagrams that have arrived, up to 2,048. With the default of
// net.core.rmem_max a socket holds fewer.
func (p *madPort) drain() {
	p.mux.mu.Lock()
	defer p.mux.mu.Unlock()
	for range drainRounds {
		if p.madSocket.receive(lockedMux{p.mux}) == 0 {
			return
		}
	}
}

var _ readableSource = (*madPort)(nil)
