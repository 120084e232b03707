//go:build linux

package shm

import "golang.org/x/sys/unix"

// A doorbell is a pair of connected Unix sockets, of which each process has one end. One
// process sends a byte on its end. The other end is then readable, which wakes the other
// process from its wait in epoll. When a process exits, the kernel closes its end of the
// pair, and the other process notices that.
//
// An eventfd would be faster. But both processes would share its flags: a hostile peer
// could make it blocking, and a write would then block the whole loop of the sender. With
// a socket, each call has a flag of its own that makes it non-blocking.

// noDoorbell takes the place of a descriptor in the results of newDoorbells after an
// error.
const noDoorbell = -1

// newDoorbells makes a doorbell. The caller owns the descriptors of both ends.
func newDoorbells() (mine, peers int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return noDoorbell, noDoorbell, err
	}
	return pair[0], pair[1], nil
}

// IsDoorbell reports whether a descriptor that a peer has passed can be a doorbell: only
// a Unix stream socket can.
func IsDoorbell(fd int) bool {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_UNIX {
		return false
	}
	typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil && typ == unix.SOCK_STREAM
}
