//go:build linux

package udp

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// A GSISocket is the first socket of a local address. It receives the packets to queue
// pair 1, which is that of the general services interface (IBTA vol. 1, 13.5), and sends
// from that address. Only one goroutine at a time may use it.
type GSISocket struct {
	port *localPort
	out  sender
	in   receiver
}

// OpenGSI opens the socket of a local address for packets to queue pair 1. One call of
// Receive reads at most batch packets, each of at most size bytes. counts counts the
// packets.
func (ps *Ports) OpenGSI(local netip.Addr, batch, size int, counts *counters.Set) (*GSISocket, error) {
	port, err := ps.acquire(local)
	if err != nil {
		return nil, err
	}
	return &GSISocket{
		port: port,
		out:  newSender(port.gsi, 1, size, counts),
		in:   newReceiver(port.gsi, port.local, batch, size, counts),
	}, nil
}

// FD returns the descriptor, which is readable when packets have arrived.
func (s *GSISocket) FD() int { return s.port.gsi }

// Local returns the local address and port.
func (s *GSISocket) Local() netip.AddrPort { return s.port.local }

// Close gives the socket up. The address stays open while it has other users.
func (s *GSISocket) Close() { s.port.release() }

// Receive passes some of the packets that have arrived to the sink. It does not block. It
// returns the number of datagrams that it has read.
func (s *GSISocket) Receive(to Sink) int { return s.in.receive(to) }

// Buffer returns the memory for the next packet, until Send. It returns nil while the
// system accepts no more.
func (s *GSISocket) Buffer() []byte { return s.out.buffer() }

// Send sends a packet that was built at the beginning of Buffer. The packet is complete
// except for its ICRC. It is lost if the system can not send it.
func (s *GSISocket) Send(p wire.Packet, to netip.Addr) {
	var dest destination
	dest.set(s.port.local, destHeader{remote: to})
	s.out.put(p, &dest)
	s.out.flush()
}
