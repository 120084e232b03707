//go:build linux

package udp

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// connectAfter is the number of packets before a destination gets a connected socket.
// Opening one takes as long as sending 20 packets. Arbitrary.
const connectAfter = 64

// A destination is the peer of one or more routes. It has the peer's address for system
// calls, and the Flow that computes ICRCs.
type destination struct {
	// the table that has this destination: connDests or udDests of the localSocket
	table   map[destHeader]*destination
	header  destHeader
	local   netip.AddrPort
	users   int     // number of open routes to the destination
	name    rawAddr // address of the peer
	nameLen uint32  // length of name in bytes
	flow    wire.Flow

	socket *connectedSocket // nil while the destination uses the shared socket
	// Number of packets until the destination gets a connected socket. It is 0 if the
	// destination has one or never gets one.
	untilConnect int
	connects     int // number of connected sockets that the destination has had so far
}

// A destHeader has the IP header fields of all packets to a destination.
type destHeader struct {
	remote       netip.Addr
	trafficClass uint8
	hopLimit     uint8 // 0 means the default of the system
}

// set initializes the destination for packets from a local address. The peer has the
// same UDP port.
func (d *destination) set(local netip.AddrPort, h destHeader) {
	d.local, d.header = local, h
	to := d.peer()
	d.nameLen = d.name.set(to, hostport.ZoneID(h.remote.Zone()))
	d.flow.Set(local, to)
}

// peer returns the peer's address and port.
func (d *destination) peer() netip.AddrPort {
	return netip.AddrPortFrom(d.header.remote, d.local.Port())
}

// countPacket counts a queued packet. After enough packets it calls connect() and returns
// true, if mayConnect is true.
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

// disconnect closes the connected socket. The number of packets until the next connected
// socket doubles each time, up to a limit.
func (d *destination) disconnect() {
	if d.socket == nil {
		return
	}
	d.socket.close()
	d.socket, d.untilConnect = nil, connectAfter<<min(d.connects, 16)
	d.flow.Set(d.local, d.peer())
}
