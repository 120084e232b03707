//go:build linux

package soft

import "golang.org/x/sys/unix"

// A bell is one end of a pair of Unix sockets: a byte sent on it wakes the peer,
// which waits for its own end, and the kernel hangs both up when one process
// dies. An eventfd would be cheaper to ring, but it has one set of flags for both
// processes: a hostile peer could make it block, and with it the ringer's whole
// loop. Here each call says for itself that it must not block.
const noBell = -1

// newDoorbells makes a pair of bells.
func newDoorbells() (mine, peers int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return noBell, noBell, err
	}
	return pair[0], pair[1], nil
}

// isDoorbell reports whether a descriptor that a peer sent can serve as a bell.
func isDoorbell(fd int) bool {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_UNIX {
		return false
	}
	typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil && typ == unix.SOCK_STREAM
}
