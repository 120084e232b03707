package cm

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
