//go:build linux

package shm

import (
	"sync/atomic"
	"unsafe"
)

// A regionTrailer is at the beginning of the last page of a region's memfd.
type regionTrailer struct {
	magic              uint64
	base, size         uint64
	key, domain, right uint32
	valid              atomic.Uint32 // 1 while the region is registered
}

// trailerAt returns the trailer at the beginning of mem. The memory must be aligned to 8
// bytes.
func trailerAt(mem []byte) *regionTrailer {
	_ = mem[trailerSize-1]
	return (*regionTrailer)(unsafe.Pointer(unsafe.SliceData(mem)))
}

// trailerSize is the size of a regionTrailer in bytes.
const trailerSize = int(unsafe.Sizeof(regionTrailer{}))

// wordBytes returns the memory of the slice as bytes.
func wordBytes(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))
}
