package cm

import "net/netip"

// A ServedAddr is an address at which a listener should accept requests. If the listener
// can not accept requests there, the field Err is not nil.
type ServedAddr struct {
	// Path names the way by which requests arrive. A listener on the soft device has two:
	// "local" for requests from processes of this host, and "wire" for requests from the
	// network (RoCEv2 over UDP). Path is empty if the device has only one.
	Path string
	// Addr is the address and port. It is unspecified (0.0.0.0 or ::) if the listener
	// accepts requests to every address of the host, including addresses that are added
	// later.
	Addr netip.AddrPort
	// Err is nil if the listener accepts requests at the address. Otherwise Err is the
	// reason why it can not.
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

// Serves returns the addresses at which a listener accepts requests, and the addresses at
// which it should accept requests and can not, for example because another process uses
// the UDP port. For an ID that does not listen, the result is nil. A listener on a
// wildcard follows the addresses of the host: when the result of Serves changes, the ID
// gets the event AddrChange. The caller owns the slice.
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
