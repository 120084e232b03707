package verbs

import (
	"sync/atomic"
	"unsafe"
)

// LoadUint64 returns the 8 bytes of mr at the given offset, in host byte order, with one
// atomic load. A program can use LoadUint64 to wait for a value that a device writes.
// Once the program has loaded the value, all bytes that the device wrote earlier are
// visible too. Any goroutine may call LoadUint64.
//
// LoadUint64 panics if the address is not a multiple of 8 or the bytes are not in the
// region. Memory of PD.Alloc begins at a multiple of 8.
func LoadUint64(mr MR, offset int) uint64 {
	const size = 8
	word := unsafe.Pointer(unsafe.SliceData(mr.Bytes()[offset : offset+size]))
	if uintptr(word)%size != 0 {
		panic("verbs: LoadUint64 at an address that is not a multiple of 8")
	}
	return atomic.LoadUint64((*uint64)(word))
}
