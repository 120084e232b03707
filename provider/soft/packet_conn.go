//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A packetConn carries a shard's packets to other hosts. It belongs to the shard,
// and to the packets' buffers it is the owner. It may lose packets, and tells
// nobody.
type packetConn interface {
	// open makes a route ready for use until close, or tells why it can not be
	// had.
	open(to *route) error
	close(to *route)
	// room returns size bytes for one packet along to, or nil when there is no
	// room before the next drive. They are the caller's until push, or the next
	// call of room, with which they are dropped.
	buffer(to *route, size int) []byte
	// push queues the packet that was built in the last room. Nothing but its
	// ICRC is missing, which is the link's to fill in.
	push(to *route, p wire.Packet)
	// flush sends what is queued.
	flush()
	// doubt tells that a packet along to was not answered in time. What the link
	// has found out about the way may not be so any more.
	onTimeout(to *route)
}

// A route is the way to a peer, in the fields of the IP header.
type route struct {
	local, remote netip.Addr
	trafficClass  uint8
	hopLimit      uint8
	wantHeader    bool // its owner wants to know the header of what arrives

	// Once the link has opened it:
	socket *udpSocket
	dest   *udpDest
}

// routeOf is the route of an address vector, from the address of this host that
// it names.
func (d *device) routeOf(attr *verbs.AHAttr) (route, error) {
	local, err := d.gids.at(attr.SourceIndex)
	if err != nil {
		return route{}, err
	}
	return route{
		local: local, remote: attr.DestGID.Addr(),
		trafficClass: attr.TrafficClass, hopLimit: attr.HopLimit,
	}, nil
}

// An arrival is what the IP header said of a packet that came in.
type ipHeader struct {
	from, to     netip.Addr
	port         uint16 // UDP port of the sender
	trafficClass uint8
	hopLimit     uint8
}

// A wireQP is a queue pair on the wire path.
type wireQP interface {
	// receive takes a packet whose partition key and ICRC are right. It is valid
	// during the call.
	receive(p wire.Packet, from *ipHeader)
	// work sends what became due, and reports whether all of it is out.
	sendDue() (done bool)
}

// nearest is the sequence with the number v that is closest to the sequence
// near, where base is the number of sequence 0. It returns false for one before
// that. Sequences count packets from the beginning of the connection and never
// wrap; numbers have 24 bits and do (IBTA vol. 1, 9.7.1).
func nearestSeq(v, base psn.Value, near uint64) (uint64, bool) {
	seq := int64(near) + int64(v.Sub(psnOf(base, near)))
	return uint64(seq), seq >= 0
}

// number is the packet sequence number of a sequence.
func psnOf(base psn.Value, seq uint64) psn.Value { return base.Add(int(seq)) }
