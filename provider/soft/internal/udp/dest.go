//go:build linux

package udp

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// connectAfter is the number of packets after which a destination gets a connected socket
// for the first time. Opening and connecting the socket takes as long as sending 20
// packets. 64 is arbitrary; it is larger than 20, so that the cost is small compared with
// that of the packets.
const connectAfter = 64

// A destination is the peer of one or more routes. It has the peer's address in the form
// of the system calls, and the values with which the ICRC of a packet begins: those of
// the IP and UDP headers. It belongs to the owner of the socket.
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
	// untilConnect is the number of packets that are to be sent before the destination
	// gets a connected socket. It is 0 if the destination already has a connected socket
	// or will never get one.
	untilConnect int
	connects     int // number of connected sockets that the destination has had so far
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
// opens the connected socket when untilConnect becomes 0. If mayConnect is false, no
// connected socket may be opened now; countPacket then leaves untilConnect at 1, so that
// a later packet opens the socket. If countPacket has called connect, it returns true
// and the error of connect.
func (d *destination) countPacket(mayConnect bool) (tried bool, err error) {
	if d.untilConnect > 1 || mayConnect && d.untilConnect == 1 {
		if d.untilConnect--; d.untilConnect == 0 {
			return true, d.connect()
		}
	}
	return false, nil
}

// connect opens the connected socket of the destination. After an error it is not called
// again for this destination, because the cause of the error is expected to remain.
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

// disconnect closes the connected socket. The destination then uses the shared socket
// until it has sent enough packets for the next connected socket. That number of packets
// is connectAfter * 2^n, where n is the number of connected sockets that the destination
// has had, but at most 16.
func (d *destination) disconnect() {
	if d.socket == nil {
		return
	}
	d.socket.close()
	d.socket, d.untilConnect = nil, connectAfter<<min(d.connects, 16)
	d.flow.Set(d.local, d.peer())
}
