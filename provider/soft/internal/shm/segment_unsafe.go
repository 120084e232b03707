//go:build linux

package shm

import (
	"sync/atomic"
	"unsafe"
)

// controlAt returns shared memory as a control block. The layout of a segment guarantees
// that the memory is aligned and large enough.
func controlAt(mem []byte) *ControlBlock {
	_ = mem[unsafe.Sizeof(ControlBlock{})-1]
	return (*ControlBlock)(unsafe.Pointer(unsafe.SliceData(mem)))
}

// slotsOf returns shared memory as slots.
func slotsOf(mem []byte) []slotFrame {
	return unsafe.Slice((*slotFrame)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/SlotSize)
}

// fetch makes the processor load the second cache line of a slot, which has most of the
// payload, while the header in the first line is processed.
func (s *slotFrame) fetch() {
	_ = atomic.LoadUint64((*uint64)(unsafe.Pointer(&s.data[64-4*8])))
}

// The layout is shared with another process: it must not depend on the compiler.
var (
	_ [SlotSize]byte = [unsafe.Sizeof(slotFrame{})]byte{}
	_ [128]byte      = [unsafe.Sizeof(ControlBlock{})]byte{}
)
