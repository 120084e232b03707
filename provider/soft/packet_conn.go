//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

// A packetConn sends and receives the packets of a shard. It belongs to the shard, and
// owns the buffers of the packets. It may lose packets without an error. udp.Conn
// implements it.
type packetConn interface {
	// Open prepares a route for use, until Close. It returns an error if no packets can
	// be sent along the route.
	Open(to *udp.Route) error
	Close(to *udp.Route)
	// Buffer returns memory of the given size for one packet, which will be sent along
	// the given route. It returns nil if there is no room; there may be room again in
	// the next call of drive. The caller owns the bytes until it calls Push. If it calls
	// Buffer again without Push, the bytes are discarded.
	Buffer(to *udp.Route, size int) []byte
	// Push queues the packet that the caller has built in the bytes of the last Buffer.
	// The packet is complete except for its ICRC, which the packetConn computes.
	Push(to *udp.Route, p wire.Packet)
	// Flush sends the queued packets.
	Flush()
	// OnTimeout is called when a packet was sent along the route and the peer did not
	// acknowledge the packet in time. The packetConn then discards what it has found out
	// about the network path, because the network path may have changed.
	OnTimeout(to *udp.Route)
}

// A wireQP is a queue pair on the wire path.
type wireQP interface {
	// receive processes a packet whose partition key and ICRC are correct. The packet is
	// valid during the call.
	receive(p wire.Packet, from *udp.Header)
	// sendDue sends the packets that are due. The result done is true if all of them were
	// sent.
	sendDue() (done bool)
}

var _ packetConn = (*udp.Conn)(nil)
