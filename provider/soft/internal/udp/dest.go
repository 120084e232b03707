//go:build linux

package udp

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// connectAfter is the number of packets after which a destination gets a connected
// socket. Connecting takes as long as sending 20 packets.
const connectAfter = 64

// A destination is the peer of one or more routes. It has the address in the form of the
// system calls, and the state of the ICRC for the headers below the BTH. It belongs to
// the owner of the socket.
type destination struct {
	table   map[destHeader]*destination // the table that has this destination
	header  destHeader
	local   netip.AddrPort
	users   int     // number of open routes
	name    rawAddr // address of the peer
	nameLen uint32  // length of name in bytes
	flow    wire.Flow

	socket *connectedSocket // nil while the destination uses the shared socket
	// untilConnect is the number of packets until the destination gets a connected
	// socket. It is 0 if the destination has one, or gets none.
	untilConnect int
	connects     int // number of connected sockets that it has had
}

// A destHeader has the fields of the IP header of packets to a destination.
type destHeader struct {
	remote       netip.Addr
	trafficClass uint8
	hopLimit     uint8 // 0 for the default of the system
}

// set initializes the destination, for packets from a local address. Both ends use the
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

// countPacket is called for each packet that is queued. It counts untilConnect down, and
// connects the destination at its end. tried reports that it has called connect, and err
// is the result. If mayConnect is false, it leaves that to the next packet.
func (d *destination) countPacket(mayConnect bool) (tried bool, err error) {
	if d.untilConnect > 1 || mayConnect && d.untilConnect == 1 {
		if d.untilConnect--; d.untilConnect == 0 {
			return true, d.connect()
		}
	}
	return false, nil
}

// connect gives the destination a connected socket. If that fails, it is not tried again,
// because the reason is not expected to change.
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

// disconnect closes the connected socket, so that the destination uses the shared socket.
// The number of packets after which it is connected again doubles each time.
func (d *destination) disconnect() {
	if d.socket == nil {
		return
	}
	d.socket.close()
	d.socket, d.untilConnect = nil, connectAfter<<min(d.connects, 16)
	d.flow.Set(d.local, d.peer())
}
