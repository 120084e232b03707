package shm

import (
	"fmt"
	"math/bits"

	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	MinRingSlots = 8 // smallest number of slots in a ring
	// largest number of slots, because the sequence number in a slot has 16 bits
	maxRingSlots = 1 << 15
	MinRingBytes = 4 << 10 // smallest size in bytes of the payload area of a ring
	maxRingBytes = 64 << 20
)

// MaxShards is the largest number of shards of a device.
const MaxShards = 2048

// Geometry has the sizes of a ring. Both rings of a segment have the same sizes. The
// sizes are powers of two.
type Geometry struct {
	Slots uint32 // number of slots
	Bytes uint32 // size of the payload area in bytes
}

// Check returns a *verbs.ParamError if a size is out of range or not a power of two.
func (g Geometry) Check() error {
	for _, f := range []struct {
		name            string
		value, min, max uint32
	}{
		{"RingSlots", g.Slots, MinRingSlots, maxRingSlots},
		{"RingBytes", g.Bytes, MinRingBytes, maxRingBytes},
	} {
		if f.value < f.min || f.value > f.max || bits.OnesCount32(f.value) != 1 {
			return &verbs.ParamError{Field: f.name, Value: int64(f.value), Limit: int64(f.max),
				Reason: fmt.Sprintf("not a power of two from %d to %d", f.min, f.max)}
		}
	}
	return nil
}
