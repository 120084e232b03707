package cm

import "net/netip"

// A ServedAddr is an address of a listener. Err is set if the listener can not accept
// requests there.
type ServedAddr struct {
	// Path names the path on which requests arrive, such as "local" and "wire" of the
	// soft device. Path is empty if the device has only one path.
	Path string
	// Addr is the address and port. The unspecified address (0.0.0.0 or ::) stands for
	// every address of the host, including later ones.
	Addr netip.AddrPort
	// Err is the reason why the listener can not accept requests at the address, or nil.
	Err error
}

// A ServesReader is a TransportID that can report the addresses at which it accepts
// requests.
type ServesReader interface {
	// Serves implements ID.Serves for an ID that listens. Nil means that the transport
	// does not know the addresses. The caller owns the slice.
	Serves() []ServedAddr
}

// Serves returns the addresses of a listener, and nil for other IDs. When the addresses
// of a listener on a wildcard change, the ID gets AddrChange. The caller owns the slice.
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
