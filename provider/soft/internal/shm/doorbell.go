//go:build linux

package shm

import "golang.org/x/sys/unix"

// A doorbell is one end of a pair of Unix sockets. A byte that one process sends wakes
// the other one, which waits for its own end. The kernel closes the connection when one
// of the processes ends. An eventfd would be faster, but its flags belong to both
// processes: a hostile peer could make it block, and so stop the whole loop of the
// sender. With a socket, each call says for itself that it must not block.

// NoDoorbell is the descriptor of an end without a doorbell.
const NoDoorbell = -1

// NewDoorbells makes the two ends of a doorbell. The caller owns both.
func NewDoorbells() (mine, peers int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return NoDoorbell, NoDoorbell, err
	}
	return pair[0], pair[1], nil
}

// IsDoorbell reports whether a descriptor that a peer has passed can be a doorbell: it
// has to be a Unix stream socket.
func IsDoorbell(fd int) bool {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_UNIX {
		return false
	}
	typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil && typ == unix.SOCK_STREAM
}
