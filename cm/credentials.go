package cm

// Credentials are the process and the user at the other end of a connection on
// one host, as the kernel reports them. The process made its end of the
// connection with these; it may have changed its user, or handed the connection
// to another process, since. A process ID is used again after the process has
// ended, so only the user ID is fit for deciding what a peer may do. Source:
// unix(7), SO_PEERCRED.
type Credentials struct {
	// PID is the process, or 0 when it is not in the PID namespace of this one.
	PID int32
	// UID and GID are the effective user and group. A user or group that is not
	// mapped into this user namespace has the number in
	// /proc/sys/kernel/overflowuid or overflowgid, which is 65534 by default.
	UID, GID uint32
}
