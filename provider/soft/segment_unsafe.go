//go:build linux

package soft

import "unsafe"

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

// The layout is shared with another process: it must not depend on the compiler.
var (
	_ [slotSize]byte = [unsafe.Sizeof(slot{})]byte{}
	_ [128]byte      = [unsafe.Sizeof(control{})]byte{}
)
