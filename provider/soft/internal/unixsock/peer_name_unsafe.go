//go:build linux

package unixsock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// PeerName returns the abstract name of the socket at the other end of a connected Unix
// socket, with '@' in place of the initial zero byte. It returns false if that socket has
// no name, or a name in the file system. See unix(7).
//
// unix.Getpeername is not sufficient for two reasons. It ends an abstract name at the
// first zero byte. And for a file whose path begins with '@' it returns the same result
// as for an abstract name. In both cases a process could pretend to have the name of
// another socket.
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
