//go:build linux

package unixsock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// PeerName returns the abstract name of the other end of a connected Unix socket. It
// begins with '@'. PeerName returns false if there is none.
//
// unix.Getpeername is not sufficient: it ends a name at a zero byte, and a file path may
// also begin with '@'.
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
