//go:build linux

package madcm

import (
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A madNetwork opens the sockets for management datagrams. The network is UDP or a
// simulation.
type madNetwork interface {
	// open opens the socket of a local address.
	open(local netip.Addr) (madSocket, error)
	// openRequests opens a requestSocket at a local address. If it returns nil, requests are
	// sent from the madSocket.
	openRequests(local netip.Addr) (*requestSocket, error)
}

// A madSocket sends and receives management datagrams at a local address. Only one
// goroutine at a time may use it.
type madSocket interface {
	// fd returns a descriptor that is readable when datagrams have arrived. A simulation
	// returns -1.
	fd() int
	// receive passes received datagrams to a udp.GSISink, at most madBatch, and returns their
	// number. It does not block.
	receive(to udp.GSISink) int
	// send sends a datagram. If an error occurs, the datagram is lost.
	send(m *wire.MAD, to netip.Addr)
	// routeMTU returns the MTU in bytes of the route to an address, or 0 if it is not
	// known.
	routeMTU(to netip.Addr) int
	close()
}

// udpMADs is the madNetwork that uses UDP. Its sockets are those of udp.Ports.
type udpMADs struct {
	ports  *udp.Ports
	port   uint16 // UDP port of all peers
	counts *counters.Set
}

func (n *udpMADs) open(local netip.Addr) (madSocket, error) {
	socket, err := n.ports.OpenGSI(local, madBatch, madBufSize, n.counts)
	if err != nil {
		return nil, err
	}
	return &udpMADSocket{socket: socket}, nil
}

const (
	// madBatch is the largest number of datagrams that one call of receive() reads.
	madBatch = 32
	// madRounds is the largest number of calls of receive() in one call of OnReady. OnReady
	// reads many datagrams at once, because reading is much cheaper than handling a
	// request; see requestBatch.
	madRounds = 16
	// madBufSize is the size of a buffer for a packet with a MAD.
	madBufSize = 320
	// madDrainRounds is the largest number of calls of receive() that drain() makes.
	madDrainRounds = 64
)

type udpMADSocket struct {
	socket *udp.GSISocket
	psn    psn.Value
}

func (s *udpMADSocket) fd() int { return s.socket.FD() }
func (s *udpMADSocket) close()  { s.socket.Close() }

func (s *udpMADSocket) receive(to udp.GSISink) int { return s.socket.Receive(to) }

// send implements madSocket. The packet sequence number increases with each datagram
// (IBTA vol. 1, 9.8.2.1).
func (s *udpMADSocket) send(m *wire.MAD, to netip.Addr) {
	b := s.socket.Buffer()
	if b == nil {
		return
	}
	s.socket.Send(madPacket(b, m, s.psn), to)
	s.psn = s.psn.Add(1)
}

// routeMTU implements madSocket.
func (s *udpMADSocket) routeMTU(to netip.Addr) int {
	return hostport.RouteMTU(s.socket.Local().Addr(), to)
}

// A madPort is a UDP port at a local address, opened for connection management.
type madPort struct {
	madSocket
	mux   *Mux
	local netip.Addr
	mtu   verbs.MTU // path MTU of the interface of the address; see mtuTo
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
func (p *madPort) mtuTo(remote netip.Addr) verbs.MTU {
	bytes := p.routeMTU(remote)
	if bytes == 0 {
		return p.mtu
	}
	return min(p.mtu, pathMTU(bytes))
}

// interfaceMTU returns the MTU of the interface of an address, or 0. All of 127.0.0.0/8
// belongs to the loopback interface.
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

// OnReady implements fdevent.Handler.
func (p *madPort) OnReady(int, uint32) {
	for range madRounds {
		if p.receiveBatch() < madBatch {
			return
		}
	}
}

// receiveBatch handles up to madBatch datagrams that have arrived, and returns their
// number.
func (p *madPort) receiveBatch() int {
	p.mux.mu.Lock()
	defer p.mux.mu.Unlock()
	return p.madSocket.receive(lockedMux{p.mux})
}

// drain handles all datagrams that have arrived, up to madDrainRounds * madBatch = 2,048.
// A socket with the default buffer size holds fewer datagrams.
func (p *madPort) drain() {
	for range madDrainRounds {
		if p.receiveBatch() == 0 {
			return
		}
	}
}

var _ fdevent.Handler = (*madPort)(nil)
