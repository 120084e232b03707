//go:build linux

package shm

import (
	"sync/atomic"
	"unsafe"
)

// controlAt returns the control block at the beginning of mem. The memory must be
// aligned to 8 bytes.
func controlAt(mem []byte) *ControlBlock {
	_ = mem[unsafe.Sizeof(ControlBlock{})-1]
	return (*ControlBlock)(unsafe.Pointer(unsafe.SliceData(mem)))
}

// slotsOf returns the memory mem as the slots of a ring.
func slotsOf(mem []byte) []slotFrame {
	return unsafe.Slice((*slotFrame)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/SlotSize)
}

// fetch loads the second cache line of a slot into the cache. This line has most of the
// payload, which is read later.
func (s *slotFrame) fetch() {
	_ = atomic.LoadUint64((*uint64)(unsafe.Pointer(&s.data[64-4*8])))
}

// The peer's process relies on these sizes. The build fails if one of them changes.
var (
	_ [SlotSize]byte = [unsafe.Sizeof(slotFrame{})]byte{}
	_ [128]byte      = [unsafe.Sizeof(ControlBlock{})]byte{}
)
