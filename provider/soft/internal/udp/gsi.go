//go:build linux

package udp

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// A GSISink receives the packets of a GSISocket.
type GSISink interface {
	Sink
	// Wants is called for each packet before its ICRC is checked. If it returns false, the
	// packet is counted as cm_request_unread and dropped. So the sink can drop a part of a
	// flood for little more than the system call that has received it.
	Wants(p wire.Packet, from, to netip.Addr) bool
}

// A GSISocket sends and receives the packets of queue pair 1, which is for connection
// management (IBTA vol. 1, 13.5). It belongs to one local address. Only one goroutine at
// a time may use it.
type GSISocket struct {
	port *localPort
	out  sender
	in   receiver
	dest destination // destination of the packet that Send sends
}

// OpenGSI opens the socket of a local address for packets to queue pair 1. One call of
// Receive reads at most batchSize packets. Packets longer than the given size in bytes
// are dropped.
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

// Close releases the local address. The last user of the address closes all its sockets.
func (s *GSISocket) Close() { s.port.release() }

// Receive passes packets that have arrived to the sink. It returns the number of
// datagrams, and does not block.
func (s *GSISocket) Receive(to GSISink) int {
	s.in.gsi = to
	return s.in.receive(to)
}

// Buffer returns memory for the next packet. The memory is valid until Send. Buffer
// returns nil while the kernel accepts no packets.
func (s *GSISocket) Buffer() []byte { return s.out.buffer() }

// Send sends a packet that is in the memory from the last call of Buffer. The packet
// must be complete except for its ICRC. Send ignores errors.
func (s *GSISocket) Send(p wire.Packet, to netip.Addr) {
	s.dest = destination{}
	s.dest.set(s.port.local, destHeader{remote: to})
	s.out.put(p, &s.dest, 0)
	s.out.flush()
}
