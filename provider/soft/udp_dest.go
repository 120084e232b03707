//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// A udpDest is where the packets of a route go: the peer's address in the form
// that the system wants, and what the ICRC covers of the headers below ours. It
// has scratch space, so it belongs to the owner of the socket.
type udpDest struct {
	socket  *udpSocket // nil for connection management
	name    rawName
	nameLen uint32
	flow    wire.Flow

	trafficClass uint8
	hopLimit     uint8 // 0: the system's
}

// set makes it the way from a local address to a peer's. Both ends use the same
// port.
func (d *udpDest) set(local netip.AddrPort, remote netip.Addr) {
	to := netip.AddrPortFrom(remote, local.Port())
	d.nameLen = d.name.set(to, zoneID(remote.Zone()))
	d.flow.Set(local, to)
}
