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
	// Buffer returns size bytes for one packet along to. It returns nil if there is no
	// room before the next drive. The caller owns the bytes until Push. The next call of
	// Buffer without Push discards them.
	Buffer(to *udp.Route, size int) []byte
	// Push queues the packet that was built in the last Buffer. The packet is complete
	// except for its ICRC, which the packetConn computes.
	Push(to *udp.Route, p wire.Packet)
	// Flush sends the queued packets.
	Flush()
	// OnTimeout reports that the peer did not acknowledge a packet along to in time. The
	// packetConn then discards what it has found out about the network path, because the
	// network path may have changed.
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
	// sendDue sends what is due, and reports whether nothing is left.
	sendDue() (done bool)
}

// nearestSeq returns the sequence that has the PSN v and is closest to the sequence
// near. base is the PSN of sequence 0. nearestSeq returns false if the closest one would
// be negative. Sequences count packets from the beginning of the connection and do not
// wrap; PSNs have 24 bits and wrap (IBTA vol. 1, 9.7.1).
func nearestSeq(v, base psn.Value, near uint64) (uint64, bool) {
	seq := int64(near) + int64(v.Sub(psnOf(base, near)))
	return uint64(seq), seq >= 0
}

// psnOf returns the PSN of a sequence.
func psnOf(base psn.Value, seq uint64) psn.Value { return base.Add(int(seq)) }

var _ packetConn = (*udp.Conn)(nil)
