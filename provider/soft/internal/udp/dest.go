//go:build linux

package udp

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// connectAfter is the number of packets after which a destination gets a connected
// socket. Opening a socket takes as long as sending 20 packets. Arbitrary.
const connectAfter = 64

// A destination is a peer to which one or more routes lead.
type destination struct {
	// table of the localSocket that has this destination: connDests or udDests
	table   map[destHeader]*destination
	header  destHeader
	local   netip.AddrPort
	users   int     // number of open routes to the destination
	name    rawAddr // address of the peer
	nameLen uint32  // length of name in bytes
	flow    wire.Flow

	socket *connectedSocket // nil while the destination uses the shared socket
	// Number of packets until the destination gets a connected socket. It is 0 if the
	// destination has one, or if it never gets one.
	untilConnect int
	connects     int // number of connected sockets that the destination has had so far
}

// A destHeader has the IP header fields of all packets to a destination.
type destHeader struct {
	remote       netip.Addr
	trafficClass uint8
	hopLimit     uint8 // 0 means the default of the system
}

// set initializes the destination. The peer's UDP port is the same as the local port.
func (d *destination) set(local netip.AddrPort, h destHeader) {
	d.local, d.header = local, h
	to := d.peer()
	d.nameLen = d.name.set(to, hostport.ZoneID(h.remote.Zone()))
	d.flow.Set(local, to)
}

func (d *destination) peer() netip.AddrPort {
	return netip.AddrPortFrom(d.header.remote, d.local.Port())
}

// countPacket counts a queued packet. If mayConnect is true, it opens the connected
// socket after enough packets, and returns true.
func (d *destination) countPacket(mayConnect bool) (tried bool, err error) {
	if d.untilConnect > 1 || mayConnect && d.untilConnect == 1 {
		if d.untilConnect--; d.untilConnect == 0 {
			return true, d.connect()
		}
	}
	return false, nil
}

// connect opens the connected socket. After an error it is not called again for this
// destination.
func (d *destination) connect() error {
	socket, err := newConnectedSocket(d.local.Addr(), d.peer(), d.header)
	if err != nil {
		return err
	}
	d.socket = socket
	d.connects++
	d.flow.Set(socket.local, d.peer())
	return nil
}

// disconnect closes the connected socket, if there is one. The destination needs twice
// as many packets as before to get another connected socket, up to a limit.
func (d *destination) disconnect() {
	if d.socket == nil {
		return
	}
	d.socket.close()
	d.socket, d.untilConnect = nil, connectAfter<<min(d.connects, 16)
	d.flow.Set(d.local, d.peer())
}
