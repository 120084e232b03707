package cm

import "net/netip"

// A ServedAddr is an address at which a listener takes requests, or was to.
type ServedAddr struct {
	// Path is how requests get there: "local" for processes of this host and
	// "wire" for RoCEv2 by UDP on the soft device. Empty means that the device has
	// one way only.
	Path string
	// Addr is the address and port. It is unspecified where the listener takes
	// requests to every address of the host, those that are added later included.
	Addr netip.AddrPort
	// Err is nil where requests are taken, and says else why they are not.
	Err error
}

// A ServesReader is a TransportID that can tell where it takes requests.
type ServesReader interface {
	// Serves is that of ID.Serves, for an ID that listens. Nil means that it is
	// not known, and counts as the address that the ID is bound to.
	Serves() []ServedAddr
}

// Serves tells where a listener takes requests, and where it was to and can not, for
// example because another process has the UDP port of an address. It is nil for an
// ID that does not listen. A listener on a wildcard follows the addresses of the host:
// where that changes what Serves tells, the ID gets AddrChange. The slice is the
// caller's.
func (id *ID) Serves() []ServedAddr {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.state != StateListening {
		return nil
	}
	if t, ok := id.t.(ServesReader); ok {
		if served := t.Serves(); served != nil {
			return served
		}
	}
	return []ServedAddr{{Addr: id.t.LocalAddr()}}
}
