//go:build linux

package udp

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// DefaultHopLimit is Linux's default hop limit (ip_default_ttl, ip(7)).
const DefaultHopLimit = 64

// A Route has the IP header fields of packets to a peer. Before Conn.Open is called,
// routes may be compared with ==.
type Route struct {
	Local, Remote netip.Addr
	TrafficClass  uint8
	HopLimit      uint8 // 0 means the default of the system
	WantHeader    bool  // true if the receiver needs the IP header of each packet
	WantTime      bool  // true if the receiver needs Header.Time of each packet
	// PeerSocket is the value of Header.Socket in the last packet from the peer's queue
	// pair. Packets for queue pairs with the same PeerSocket may be sent in one message.
	PeerSocket uint16

	// The fields below are set by Conn.Open.
	socket *localSocket
	dest   *destination
}

// reports returns what the receiver needs to know about each packet.
func (r *Route) reports() (wanted reports) {
	if r.WantHeader {
		wanted |= reportHeaders
	}
	if r.WantTime {
		wanted |= reportTimes
	}
	return wanted
}

// A Header has fields of the IP header of a received packet.
type Header struct {
	From, To     netip.Addr
	TrafficClass uint8
	HopLimit     uint8
	// Socket is the sender's UDP port, or 0 if the sender uses the port of RoCEv2. If
	// the sender uses this package, any other port is that of a connected socket. All
	// queue pairs that send from a connected socket belong to one shard.
	Socket uint16
	// Time is when the kernel has received the packet, in nanoseconds since 1970
	// (CLOCK_REALTIME). Packets that the kernel has merged have the time of the first one.
	// It is 0 if the kernel has not reported it. From the first Open of a route that wants it,
	// the kernel reports the time of each packet of the socket, until no open route uses the
	// socket.
	Time int64
}

// A Sink receives the packets of a socket.
type Sink interface {
	// Receive handles a packet with a correct ICRC. The packet and its header are valid
	// only during the call. Receive returns false if no queue pair exists.
	Receive(p wire.Packet, from *Header) (taken bool)
}
