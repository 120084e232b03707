//go:build linux

package qp

import (
	"sync/atomic"
	"unsafe"
)

// addressOf returns the virtual address of b. The slice b must not be empty.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// AtomicWord returns the first 8 bytes of b as an integer. They must be aligned (IBTA
// vol. 1, 9.4.5.1).
func AtomicWord(b []byte) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(b)))
}
