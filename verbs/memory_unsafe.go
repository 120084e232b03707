package verbs

import (
	"sync/atomic"
	"unsafe"
)

// LoadUint64 returns the 8 bytes of mr at offset, in the byte order of the host. It reads
// them with one atomic load. So a program can wait in a loop until a device writes a
// value: after a load that returns the new value, the bytes that the device has written
// before it are visible too.
//
// LoadUint64 panics if the address of the bytes is not a multiple of 8, or if the bytes
// are not in the region. Memory of PD.Alloc begins at a multiple of 8; in such memory it
// is enough that offset is a multiple of 8. Any goroutine may call.
func LoadUint64(mr MR, offset int) uint64 {
	const size = 8
	word := unsafe.Pointer(unsafe.SliceData(mr.Bytes()[offset : offset+size]))
	if uintptr(word)%size != 0 {
		panic("verbs: LoadUint64 at an address that is not a multiple of 8")
	}
	return atomic.LoadUint64((*uint64)(word))
}
