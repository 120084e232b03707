//go:build linux

package udp

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// connectAfter is the number of packets after which a destination gets a connected
// socket. Opening and connecting the socket takes as long as sending 20 packets.
const connectAfter = 64

// A destination is the peer of one or more routes. It has the peer's address in the form
// of the system calls, and the values with which the ICRC of a packet begins: those of
// the IP and UDP headers. It belongs to the owner of the socket.
type destination struct {
	table   map[destHeader]*destination // connDests or udDests, whichever has this destination
	header  destHeader
	local   netip.AddrPort
	users   int     // number of open routes to the destination
	name    rawAddr // address of the peer
	nameLen uint32  // length of name in bytes
	flow    wire.Flow

	socket *connectedSocket // nil while the destination uses the shared socket
	// untilConnect is the number of packets after which the destination gets a connected
	// socket. It is 0 if the destination already has one, or never gets one.
	untilConnect int
	connects     int // number of connected sockets that the destination has had
}

// A destHeader has the fields of the IP header that all packets to a destination share.
type destHeader struct {
	remote       netip.Addr
	trafficClass uint8
	hopLimit     uint8 // 0 means the default of the system
}

// set initializes the destination for packets from a local address. The peer receives at
// the same UDP port as the local address.
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

// countPacket is called for each packet that is queued. It decrements untilConnect, and
// opens the connected socket when untilConnect becomes 0. If mayConnect is false,
// untilConnect stays at 1 for a later packet. tried is true if countPacket has called
// connect, and err is the error of that call.
func (d *destination) countPacket(mayConnect bool) (tried bool, err error) {
	if d.untilConnect > 1 || mayConnect && d.untilConnect == 1 {
		if d.untilConnect--; d.untilConnect == 0 {
			return true, d.connect()
		}
	}
	return false, nil
}

// connect opens the connected socket of the destination. If connect fails, it is not
// called again for this destination, because the cause is not expected to go away.
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

// disconnect closes the connected socket. The destination then uses the shared socket,
// until it has sent enough packets for the next connected socket. That number of packets
// doubles each time.
func (d *destination) disconnect() {
	if d.socket == nil {
		return
	}
	d.socket.close()
	d.socket, d.untilConnect = nil, connectAfter<<min(d.connects, 16)
	d.flow.Set(d.local, d.peer())
}
