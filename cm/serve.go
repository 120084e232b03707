package cm

import "net/netip"

// A ServedAddr is an address at which a listener should accept requests. Its field Err
// is nil if the listener does accept them.
type ServedAddr struct {
	// Path is the path on which requests arrive. On the soft device it is "local" for
	// requests of processes of this host, or "wire" for RoCEv2 over UDP. It is empty if
	// the device has one path only.
	Path string
	// Addr is the address and port. It is unspecified (0.0.0.0 or ::) if the listener
	// accepts requests to every address of the host, including addresses that are added
	// later.
	Addr netip.AddrPort
	// Err is nil if requests are accepted at the address. Otherwise it is the reason why
	// they are not.
	Err error
}

// A ServesReader is a TransportID that can report the addresses at which it accepts
// requests.
type ServesReader interface {
	// Serves implements ID.Serves for an ID that listens. Nil means that the transport
	// does not know the addresses; ID.Serves then returns the address to which the ID is
	// bound. The caller owns the slice.
	Serves() []ServedAddr
}

// Serves returns the addresses at which a listener accepts requests. It includes the
// addresses at which the listener should accept requests and can not, for example
// because another process has the UDP port. It returns nil for an ID that does not
// listen. A listener on a wildcard follows the addresses of the host: when the result of
// Serves changes, the ID gets AddrChange. The caller owns the slice.
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
