//go:build linux

package unixsock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The functions of package unix allocate memory for the socket address in each call. The
// functions in this file do not.

// abstractAddr returns the socket address of an abstract name, which begins with '@', and
// its size. The error is EINVAL if the name is too long.
func abstractAddr(name string) (raw unix.RawSockaddrUnix, size uintptr, err error) {
	if len(name) == 0 || len(name) > len(raw.Path) {
		return raw, 0, unix.EINVAL
	}
	raw.Family = unix.AF_UNIX
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&raw.Path[0])), len(raw.Path)), name)
	raw.Path[0] = 0
	return raw, unsafe.Offsetof(raw.Path) + uintptr(len(name)), nil
}

// Connect connects a socket to the abstract name, which begins with '@'. See connect(2).
func Connect(fd int, name string) error { return withAddr(unix.SYS_CONNECT, fd, name) }

// BindTo binds a socket to the abstract name, which begins with '@'. See bind(2).
func BindTo(fd int, name string) error { return withAddr(unix.SYS_BIND, fd, name) }

// withAddr makes a system call on fd, with the abstract name as the address. The
// parameter number is the system call number of connect(2) or bind(2).
func withAddr(number uintptr, fd int, name string) error {
	raw, size, err := abstractAddr(name)
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(number, uintptr(fd), uintptr(unsafe.Pointer(&raw)), size); errno != 0 {
		return errno
	}
	return nil
}

// accept accepts the next client of a listening socket. See accept4(2).
func accept(fd int) (int, error) {
	client, _, errno := unix.Syscall6(unix.SYS_ACCEPT4, uintptr(fd), 0, 0, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(client), nil
}

// send sends one packet with control messages; see sendmsg(2). The packet and the
// control messages may be empty.
func send(fd int, packet, rights []byte) error {
	iov := unix.Iovec{Base: unsafe.SliceData(packet)}
	iov.SetLen(len(packet))
	msg := unix.Msghdr{Iov: &iov, Control: unsafe.SliceData(rights)}
	msg.SetIovlen(1)
	msg.SetControllen(len(rights))
	_, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	if errno != 0 {
		return errno
	}
	return nil
}

// receive receives one packet into buf, and its control messages into rights; see
// recvmsg(2). Each of the buffers may be empty.
func receive(fd int, buf, rights []byte) (n, nRights, flags int, err error) {
	iov := unix.Iovec{Base: unsafe.SliceData(buf)}
	iov.SetLen(len(buf))
	msg := unix.Msghdr{Iov: &iov, Control: unsafe.SliceData(rights)}
	msg.SetIovlen(1)
	msg.SetControllen(len(rights))
	got, _, errno := unix.Syscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if errno != 0 {
		return 0, 0, 0, errno
	}
	return int(got), int(msg.Controllen), int(msg.Flags), nil
}

// peerCredentials returns the credentials of the process at the other end of a socket.
// See unix(7), SO_PEERCRED.
func peerCredentials(fd int) (c unix.Ucred, err error) {
	size := uint32(unsafe.Sizeof(c))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERCRED,
		uintptr(unsafe.Pointer(&c)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return c, errno
	}
	return c, nil
}

// PeerName returns the abstract name of a connected socket's peer. The name begins with
// '@'. PeerName returns false if the peer has no abstract name.
//
// A name may contain zero bytes. So PeerName does not use unix.Getpeername, which
// returns only the part before a zero byte.
func PeerName(fd int) (name string, ok bool) {
	var raw unix.RawSockaddrUnix
	size := uint32(unsafe.Sizeof(raw))
	_, _, errno := unix.Syscall(unix.SYS_GETPEERNAME, uintptr(fd), uintptr(unsafe.Pointer(&raw)), uintptr(unsafe.Pointer(&size)))
	length := int(size) - int(unsafe.Offsetof(raw.Path))
	if errno != 0 || length < 1 || length > len(raw.Path) || raw.Path[0] != 0 {
		return "", false
	}
	b := make([]byte, length)
	for i, c := range raw.Path[:length] {
		b[i] = byte(c)
	}
	b[0] = '@'
	return string(b), true
}
