package cm

import "fmt"

// Credentials are the process and the user at the other end of a connection within one
// host, as the kernel reports them. The kernel stores them when that process creates its
// end of the connection. Afterwards that process may have changed its user, or may have
// passed the connection to another process. A process ID may be used again after the
// process has ended, so decisions on what a peer may do should use the user ID only.
// Source: unix(7), SO_PEERCRED.
type Credentials struct {
	// PID is the process ID, or 0 if the process is not in the PID namespace of this
	// process.
	PID int32
	// UID and GID are the effective user and group. A user or group that is not mapped
	// into this user namespace has the number in /proc/sys/kernel/overflowuid or
	// overflowgid (65534 by default).
	UID, GID uint32
}

// Credentials returns the process and the user at the other end of the connection. The
// second result is false if the transport does not know them. This is so for a
// connection over the network, with librdmacm, for a listener, and for an ID that has
// not sent its request yet. For the ID of a ConnectRequest the other end is the process
// that connects. For an ID that connects, the other end is the process that listens.
func (id *ID) Credentials() (Credentials, bool) {
	id.mu.Lock()
	defer id.mu.Unlock()
	if t, ok := id.t.(CredentialsReader); ok && id.state != StateClosed {
		return t.Credentials()
	}
	return Credentials{}, false
}

// A UserError reports that a connection was not made because one process accepts
// connections only with certain users. Either the listener does not accept the user of
// this process, or this process does not accept the user of the listener. The UserError
// is in the field Cause of a RejectError. In the UDP port space it is in the field Cause
// of an UnreachableError.
type UserError struct {
	// UID is the user who was not accepted. If the listener has refused, UID is the user
	// of this process. If this process has refused, UID is the user of the listener.
	UID uint32
	// Name is empty if the listener has refused. If this process has refused, Name is
	// the name of the Unix socket on which the listener listens. In that case nothing
	// was sent to that listener.
	Name string
}

func (e *UserError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("the listener does not allow user %d of this process", e.UID)
	}
	return fmt.Sprintf("%s belongs to user %d, who is not allowed", e.Name, e.UID)
}

// A HolderError is the reason why Bind or Listen could not take an address: a Unix
// socket holds it already.
type HolderError struct {
	// Err is ErrAddrInUse or ErrAddrNotAvailable.
	Err error
	// Name is the name of the Unix socket that holds the address.
	Name string
	// UID is the user of the process that holds the socket, if Known is true. Known is
	// false if the system does not report the user: the socket has been closed
	// meanwhile, or it does not listen and the kernel has no unix_diag (sock_diag(7)).
	UID   uint32
	Known bool
}

func (e *HolderError) Error() string {
	if !e.Known {
		return fmt.Sprintf("%v: %s is held by an unknown user", e.Err, e.Name)
	}
	return fmt.Sprintf("%v: %s is held by user %d", e.Err, e.Name, e.UID)
}

// Unwrap returns Err, so that errors.Is finds ErrAddrInUse and ErrAddrNotAvailable.
func (e *HolderError) Unwrap() error { return e.Err }
