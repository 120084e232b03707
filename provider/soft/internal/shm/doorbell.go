//go:build linux

package shm

import "golang.org/x/sys/unix"

// A doorbell is a pair of connected Unix sockets, one for each process. To wake the
// peer, a process sends a byte, which makes the peer's socket readable. When a process
// ends, the kernel closes its socket, and the peer notices.
//
// An eventfd would be faster, but a hostile peer could make it blocking.

// noDoorbell is the result of newDoorbells after an error.
const noDoorbell = -1

// newDoorbells makes a doorbell. The caller owns both descriptors.
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

// passDescriptor sends a descriptor to the other process, together with one byte. It
// fails if the socket is full.
func passDescriptor(doorbell, fd int) error {
	return unix.Sendmsg(doorbell, ringByte[:], unix.UnixRights(fd), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// maxDescriptorReads is the largest number of reads in one call of ReceiveDescriptor. A
// correct peer sends fewer bytes before a descriptor. Arbitrary.
const maxDescriptorReads = 16

// ReceiveDescriptor returns the next descriptor that the other process has sent through
// a doorbell. It drops the bytes before the descriptor. It returns false if there is no
// descriptor. The caller owns the result.
func ReceiveDescriptor(doorbell int) (fd int, ok bool) {
	var buf [64]byte
	rights := make([]byte, unix.CmsgSpace(4))
	for range maxDescriptorReads {
		n, nRights, flags, _, err := unix.Recvmsg(doorbell, buf[:], rights, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if err != nil || n == 0 {
			return -1, false
		}
		controls, err := unix.ParseSocketControlMessage(rights[:nRights])
		if err != nil || len(controls) == 0 {
			continue
		}
		fds, err := unix.ParseUnixRights(&controls[0])
		// MSG_CTRUNC means that the message had too many descriptors.
		if err == nil && len(fds) == 1 && flags&unix.MSG_CTRUNC == 0 {
			return fds[0], true
		}
		closeAll(fds)
	}
	return -1, false
}
