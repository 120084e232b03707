package cm

import "fmt"

// Credentials are the process and the user at the other end of a connection within one
// host. The kernel records them when the other end is created. Process IDs are reused,
// so only the user ID should decide whether a peer is allowed. Source: unix(7),
// SO_PEERCRED.
type Credentials struct {
	// PID is the process ID. It is 0 for a process outside this PID namespace.
	PID int32
	// UID and GID are the effective user and group. A user or group that does not exist
	// in this user namespace is reported as 65534 by default
	// (/proc/sys/kernel/overflowuid and overflowgid).
	UID, GID uint32
}

// Credentials returns the process and the user at the other end of the connection. If
// they are not known, the second result is false. They are not known over the network,
// with librdmacm, for a listener, and before the request is sent.
func (id *ID) Credentials() (Credentials, bool) {
	id.mu.Lock()
	defer id.mu.Unlock()
	if t, ok := id.t.(CredentialsReader); ok && id.state != StateClosed {
		return t.Credentials()
	}
	return Credentials{}, false
}

// A UserError reports that a connection failed because one of the two processes does not
// allow the user of the other process. It is the Cause of a RejectError. In the UDP port
// space it is the Cause of an UnreachableError.
type UserError struct {
	// UID is the user who is not allowed. If Name is empty, it is the user of this
	// process. Otherwise it is the listener's user.
	UID uint32
	// Name is empty if the listener refused. If this process refused, Name is the Unix
	// socket of the listener, and nothing was sent to the listener.
	Name string
}

func (e *UserError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("the listener does not allow user %d of this process", e.UID)
	}
	return fmt.Sprintf("%s belongs to user %d, who is not allowed", e.Name, e.UID)
}

// A HolderError reports that Bind or Listen could not reserve an address and port,
// because another Unix socket holds them or conflicts with them. The soft device
// reserves each address and port with a Unix socket.
type HolderError struct {
	// Err is ErrAddrInUse or ErrAddrNotAvailable.
	Err error
	// Name is the name of the Unix socket that holds the address.
	Name string
	// UID is the user of the process that holds the socket. If Known is false, the
	// system does not report the user, for example because it has no unix_diag
	// (sock_diag(7)).
	UID   uint32
	Known bool
}

func (e *HolderError) Error() string {
	if !e.Known {
		return fmt.Sprintf("%v: %s is held by an unknown user", e.Err, e.Name)
	}
	return fmt.Sprintf("%v: %s is held by user %d", e.Err, e.Name, e.UID)
}

// Unwrap returns Err.
func (e *HolderError) Unwrap() error { return e.Err }
