package cm

import "net/netip"

// A ServedAddr is an address at which a listener takes requests, or should take
// requests and can not (see Err).
type ServedAddr struct {
	// Path is the path by which requests arrive: "local" for processes of this host,
	// "wire" for RoCEv2 over UDP on the soft device. It is empty if the device has one
	// path only.
	Path string
	// Addr is the address and port. It is unspecified (0.0.0.0 or ::) if the listener
	// takes requests to every address of the host, including addresses that are added
	// later.
	Addr netip.AddrPort
	// Err is nil if requests are taken at the address. Otherwise it says why they are
	// not.
	Err error
}

// A ServesReader is a TransportID that knows at which addresses it takes requests.
type ServesReader interface {
	// Serves implements ID.Serves for an ID that listens. Nil means that the transport
	// does not know; ID.Serves then returns the address that the ID is bound to.
	Serves() []ServedAddr
}

// Serves returns the addresses at which a listener takes requests. It includes the
// addresses at which the listener should take requests and can not, for example
// because another process has the UDP port. It returns nil for an ID that does not
// listen. A listener on a wildcard follows the addresses of the host: when the result
// of Serves changes, the ID gets AddrChange. The caller owns the slice.
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
