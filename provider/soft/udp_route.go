//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// defaultHopLimit is the default TTL of Linux (ip_default_ttl, see ip(7)).
const defaultHopLimit = 64

// A route has the fields of the IP header for packets to a peer.
type route struct {
	local, remote netip.Addr
	trafficClass  uint8
	hopLimit      uint8 // 0 for the default of the system
	wantHeader    bool  // the receiver needs the IP header of packets that arrive

	// udpConn.Open sets these:
	socket *udpSocket
	dest   *udpDest
}

// An ipHeader has the fields of the IP and UDP headers of a received packet.
type ipHeader struct {
	from, to     netip.Addr
	port         uint16 // UDP port of the sender
	trafficClass uint8
	hopLimit     uint8
}

// A packetSink receives the packets of a socket.
type packetSink interface {
	// Receive handles a packet whose ICRC is correct. The packet and its header are
	// valid during the call. Receive returns false if there is no queue pair for the
	// packet.
	Receive(p wire.Packet, from *ipHeader) (taken bool)
}
