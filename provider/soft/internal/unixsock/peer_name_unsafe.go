//go:build linux

package unixsock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// PeerName returns the abstract name of the other end of a connected Unix socket, with
// '@' for the initial zero byte, or false if it has none. See unix(7).
//
// unix.Getpeername can be deceived. It ends an abstract name at a zero byte, and does
// not distinguish a file whose path begins with '@'.
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
