package verbs

import (
	"sync/atomic"
	"unsafe"
)

// LoadUint64 reads the 8 bytes at the given offset of memory with one atomic load. The
// result is in host byte order. The memory is usually registered. Any goroutine may call
// LoadUint64.
//
// A program can call LoadUint64 repeatedly to wait for a value that a device writes.
// After LoadUint64 has returned the value, the program can also read everything that the
// device wrote before the value.
//
// LoadUint64 panics if the address is not a multiple of 8, or if the bytes are outside
// the memory. Memory from PD.Alloc begins at a multiple of 8.
func LoadUint64(memory []byte, offset int) uint64 {
	const size = 8
	word := unsafe.Pointer(unsafe.SliceData(memory[offset : offset+size]))
	if uintptr(word)%size != 0 {
		panic("verbs: LoadUint64 at an address that is not a multiple of 8")
	}
	return atomic.LoadUint64((*uint64)(word))
}
