//go:build linux

package shm

import (
	"sync/atomic"
	"unsafe"
)

// controlAt returns the control block at the beginning of mem. The layout of a segment
// guarantees that mem is aligned and large enough.
func controlAt(mem []byte) *ControlBlock {
	_ = mem[unsafe.Sizeof(ControlBlock{})-1]
	return (*ControlBlock)(unsafe.Pointer(unsafe.SliceData(mem)))
}

// slotsOf returns the slots that are stored in mem. The parameter mem is the part of a
// segment that holds the slots of one ring.
func slotsOf(mem []byte) []slotFrame {
	return unsafe.Slice((*slotFrame)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/SlotSize)
}

// fetch makes the processor load the second cache line of a slot, which has most of the
// payload, while the caller still processes the header in the first line.
func (s *slotFrame) fetch() {
	_ = atomic.LoadUint64((*uint64)(unsafe.Pointer(&s.data[64-4*8])))
}

// These sizes are part of the layout that another process uses. The build fails if a
// compiler chooses other sizes.
var (
	_ [SlotSize]byte = [unsafe.Sizeof(slotFrame{})]byte{}
	_ [128]byte      = [unsafe.Sizeof(ControlBlock{})]byte{}
)
