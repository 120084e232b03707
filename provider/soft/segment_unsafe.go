//go:build linux

package soft

import (
	"sync/atomic"
	"unsafe"
)

// controlAt views shared memory, which is aligned and large enough by the
// layout of segment.go, as a control block.
func controlAt(mem []byte) *controlBlock {
	_ = mem[unsafe.Sizeof(controlBlock{})-1]
	return (*controlBlock)(unsafe.Pointer(unsafe.SliceData(mem)))
}

// slotsOf views shared memory as slots.
func slotsOf(mem []byte) []slotFrame {
	return unsafe.Slice((*slotFrame)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/slotSize)
}

// fetch has the processor bring the slot's second cache line, most of the payload,
// while the header in the first is still being looked at.
func (s *slotFrame) fetch() {
	_ = atomic.LoadUint64((*uint64)(unsafe.Pointer(&s.data[64-4*8])))
}

// The layout is shared with another process: it must not depend on the compiler.
var (
	_ [slotSize]byte = [unsafe.Sizeof(slotFrame{})]byte{}
	_ [128]byte      = [unsafe.Sizeof(controlBlock{})]byte{}
)
