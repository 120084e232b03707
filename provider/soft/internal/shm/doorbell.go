//go:build linux

package shm

import "golang.org/x/sys/unix"

// A doorbell is a pair of connected Unix sockets, one for each process. A byte on one
// socket makes the other socket readable. When a process ends, its socket is closed.
//
// An eventfd would be faster, but a hostile peer could make it blocking.

// noDoorbell is the result of newDoorbells after an error.
const noDoorbell = -1

// newDoorbells makes a doorbell. The caller owns the descriptors of both ends.
func newDoorbells() (mine, peers int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return noDoorbell, noDoorbell, err
	}
	return pair[0], pair[1], nil
}

// IsDoorbell reports whether a peer's descriptor can be a doorbell: a Unix stream
// socket.
func IsDoorbell(fd int) bool {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_UNIX {
		return false
	}
	typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil && typ == unix.SOCK_STREAM
}
