package cm

import "net/netip"

// A ServedAddr is an address of a listener.
type ServedAddr struct {
	// Path names the path on which requests arrive. The soft device has the paths
	// "local" and "wire". If the device has only one path, Path is empty.
	Path string
	// Addr is the address and port. The unspecified address (0.0.0.0 or ::) stands for
	// all addresses of the host, including those that it gets later.
	Addr netip.AddrPort
	// Err says why the listener can not accept requests at the address. If it can, Err
	// is nil.
	Err error
}

// A ServesReader is a TransportID that knows the addresses at which it accepts requests.
type ServesReader interface {
	// Serves implements ID.Serves for an ID that listens. If the transport does not know
	// the addresses, Serves returns nil. The caller owns the slice.
	Serves() []ServedAddr
}

// Serves returns the addresses of a listener. For other IDs it returns nil. A listener
// on a wildcard gets AddrChange when its addresses change. The caller owns the slice.
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
