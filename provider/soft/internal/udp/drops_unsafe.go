//go:build linux

package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// droppedAt returns how many datagrams the kernel has dropped at a socket (SO_MEMINFO in
// linux/sock_diag.h). It returns 0 if the number is not known.
func droppedAt(fd int) uint64 {
	var info [unix.SK_MEMINFO_VARS]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0
	}
	return uint64(info[unix.SK_MEMINFO_DROPS])
}
