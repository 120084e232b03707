//go:build linux

package udp

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// DefaultHopLimit is the default TTL of Linux (ip_default_ttl, see ip(7)).
const DefaultHopLimit = 64

// A Route has the fields of the IP header for packets to a peer. Routes are comparable
// before Open.
type Route struct {
	Local, Remote netip.Addr
	TrafficClass  uint8
	HopLimit      uint8 // 0 for the default of the system
	WantHeader    bool  // the receiver needs the IP header of packets that arrive

	// Conn.Open sets these:
	socket *localSocket
	dest   *destination
}

// A Header has the fields of the IP header of a received packet.
type Header struct {
	From, To     netip.Addr
	TrafficClass uint8
	HopLimit     uint8
}

// A Sink receives the packets of a socket.
type Sink interface {
	// Receive handles a packet whose ICRC is correct. The packet and its header are
	// valid during the call. Receive returns false if there is no queue pair for the
	// packet.
	Receive(p wire.Packet, from *Header) (taken bool)
}
