//go:build linux

package udp

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// connectAfter is how many packets a destination gets from the socket that all
// share before it is worth one of its own.
const connectAfter = 64

// A destination is where the packets of a route go: the peer's address in the form
// that the system wants, and what the ICRC covers of the headers below ours. It
// has scratch space, so it belongs to the owner of the socket.
type destination struct {
	all     map[destHeader]*destination // that it is one of
	header  destHeader
	local   netip.AddrPort
	users   int
	name    rawName
	nameLen uint32
	flow    wire.Flow

	socket       *connectedSocket // its own; nil while it uses that of all
	untilConnect int              // packets until it is to have one; 0 for never
	connects     int              // outlets that it has had
}

// A destHeader is what the IP headers of packets to a destination have.
type destHeader struct {
	remote       netip.Addr
	trafficClass uint8
	hopLimit     uint8 // 0: the system's
}

// set makes it the way from a local address to a peer's. Both ends use the same
// port.
func (d *destination) set(local netip.AddrPort, h destHeader) {
	d.local, d.header = local, h
	to := d.peer()
	d.nameLen = d.name.set(to, hostport.ZoneID(h.remote.Zone()))
	d.flow.Set(local, to)
}

func (d *destination) peer() netip.AddrPort {
	return netip.AddrPortFrom(d.header.remote, d.local.Port())
}

// counted is called for each packet that is about to be sent, and reports whether
// it got an outlet, or the attempt was made. Where it may not have one now, the next
// packet asks again.
func (d *destination) counted(mayConnect bool) (tried bool, err error) {
	if d.untilConnect > 1 || mayConnect && d.untilConnect == 1 {
		if d.untilConnect--; d.untilConnect == 0 {
			return true, d.connect()
		}
	}
	return false, nil
}

// connect gives it an outlet of its own, where that can be had; a packet then
// costs less. It is tried once: what is in the way of one stays there.
func (d *destination) connect() error {
	outlet, err := newConnectedSocket(d.local.Addr(), d.peer(), d.header)
	if err != nil {
		return err
	}
	d.socket = outlet
	d.connects++
	d.flow.Set(outlet.local, d.peer())
	return nil
}

// disconnect makes it use the outlet of all again, for some time, which is longer
// each time. Whatever was wrong with its own, or with the numbers of the packets
// there, is over then.
func (d *destination) disconnect() {
	if d.socket == nil {
		return
	}
	d.socket.close()
	d.socket, d.untilConnect = nil, connectAfter<<min(d.connects, 16)
	d.flow.Set(d.local, d.peer())
}
