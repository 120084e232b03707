//go:build linux

package udp

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// A GSISocket sends and receives the packets of queue pair 1 at a local address (IBTA
// vol. 1, 13.5). Only one goroutine at a time may use it.
type GSISocket struct {
	port *localPort
	out  sender
	in   receiver
	dest destination // destination of the packet that Send sends
}

// OpenGSI opens the socket of a local address for packets to queue pair 1. One Receive
// reads at most batchSize packets of at most the given size in bytes.
func (ps *Ports) OpenGSI(local netip.Addr, batchSize, size int, counts *counters.Set) (*GSISocket, error) {
	port, err := ps.acquire(local)
	if err != nil {
		return nil, err
	}
	return &GSISocket{
		port: port,
		out:  newSender(port.gsi, 1, size, counts),
		in:   newReceiver(port.gsi, port.local, batchSize, size, counts),
	}, nil
}

// FD returns the descriptor of the socket. It is readable when packets have arrived.
func (s *GSISocket) FD() int { return s.port.gsi }

// Local returns the local address and port.
func (s *GSISocket) Local() netip.AddrPort { return s.port.local }

// Close releases the local address. When no user is left, the sockets of the address are
// closed.
func (s *GSISocket) Close() { s.port.release() }

// Receive passes packets that have arrived to the sink, and returns the number of
// datagrams. It does not block.
func (s *GSISocket) Receive(to Sink) int { return s.in.receive(to) }

// Buffer returns memory for the next packet, valid until Send. It returns nil while the
// kernel accepts no packets.
func (s *GSISocket) Buffer() []byte { return s.out.buffer() }

// Send sends a packet from the memory of Buffer. The packet is complete except for its
// ICRC. Errors are ignored.
func (s *GSISocket) Send(p wire.Packet, to netip.Addr) {
	s.dest = destination{}
	s.dest.set(s.port.local, destHeader{remote: to})
	s.out.put(p, &s.dest, 0)
	s.out.flush()
}
