//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
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

// routeOf returns the route of an address vector. It begins at the address of this host
// that the vector's source index names.
func (d *device) routeOf(attr *verbs.AHAttr) (udp.Route, error) {
	local, err := d.gids.at(attr.SourceIndex)
	if err != nil {
		return udp.Route{}, err
	}
	return udp.Route{
		Local: local, Remote: attr.DestGID.Addr(),
		TrafficClass: attr.TrafficClass, HopLimit: attr.HopLimit,
	}, nil
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

// nearestSeq converts a PSN to a sequence. Sequences count packets from the beginning of
// the connection and do not wrap. PSNs have 24 bits and wrap (IBTA vol. 1, 9.7.1), so
// many sequences have the same PSN. Of the sequences with the PSN v, nearestSeq returns
// the one that is closest to the sequence in the parameter reference. The parameter base
// is the PSN of sequence 0. nearestSeq returns false if the closest sequence is
// negative.
func nearestSeq(v, base psn.Value, reference uint64) (uint64, bool) {
	seq := int64(reference) + int64(v.Sub(psnOf(base, reference)))
	return uint64(seq), seq >= 0
}

// psnOf returns the PSN of a sequence.
func psnOf(base psn.Value, seq uint64) psn.Value { return base.Add(int(seq)) }

var _ packetConn = (*udp.Conn)(nil)
