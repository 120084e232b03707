//go:build linux

package soft

import (
	"sync/atomic"
	"unsafe"
)

// controlAt views shared memory, which is aligned and large enough by the
// layout of segment.go, as a control block.
func controlAt(mem []byte) *control {
	_ = mem[unsafe.Sizeof(control{})-1]
	return (*control)(unsafe.Pointer(unsafe.SliceData(mem)))
}

// slotsOf views shared memory as slots.
func slotsOf(mem []byte) []slot {
	return unsafe.Slice((*slot)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/slotSize)
}

// fetch has the processor bring the slot's second cache line, most of the payload,
// while the header in the first is still being looked at.
func (s *slot) fetch() {
	_ = atomic.LoadUint64((*uint64)(unsafe.Pointer(&s.data[64-4*8])))
}

// The layout is shared with another process: it must not depend on the compiler.
var (
	_ [slotSize]byte = [unsafe.Sizeof(slot{})]byte{}
	_ [128]byte      = [unsafe.Sizeof(control{})]byte{}
)
