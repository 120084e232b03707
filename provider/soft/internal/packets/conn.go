//go:build linux

package packets

import (
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

// A Conn sends and receives the packets of a shard, and owns their buffers. It may
// lose packets without an error.
type Conn interface {
	// Open prepares a route for use until Close. It fails if the route can not be used.
	Open(to *udp.Route) error
	Close(to *udp.Route)
	// Buffer returns memory for one packet. The caller owns the memory until Push or the
	// next Buffer. Buffer returns nil if there is no room. After the next call of
	// shard.drive() there may be room again.
	Buffer(to *udp.Route, size int) []byte
	// Push queues the packet p, which must be in the memory that Buffer has returned
	// last. The Conn computes the ICRC.
	Push(to *udp.Route, p wire.Packet)
	// Flush sends the queued packets.
	Flush()
	// OnTimeout is called when a packet on the route was not acknowledged in time. The
	// Conn then discards what it has stored about the network path.
	OnTimeout(to *udp.Route)
}

// A QP is a queue pair on the wire path.
type QP interface {
	// Receive processes a packet with a correct partition key and ICRC. It must not keep
	// the packet.
	Receive(p wire.Packet, from *udp.Header)
	// SendDue sends the packets that are due. It returns true if all were sent.
	SendDue() (done bool)
}

var _ Conn = (*udp.Conn)(nil)
