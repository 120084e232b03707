//go:build linux

package unixsock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

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
