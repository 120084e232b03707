//go:build linux

package qptest

import (
	"math/rand/v2"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// WriteRandom writes random bytes to the shared memory. Half of them go to control
// blocks and slot headers.
func WriteRandom(r *rand.Rand, mem []byte, writes int) {
	for range writes {
		at := r.IntN(len(mem))
		switch r.IntN(4) {
		case 0:
			at = shm.ControlOffset + r.IntN(2*shm.ControlStride)
		case 1:
			at = shm.RingsOffset + r.IntN(32)*shm.SlotSize + r.IntN(32)
		}
		mem[at] = byte(r.Uint32())
		if r.IntN(2) == 0 {
			mem[at] = byte(r.IntN(4))
		}
	}
}
