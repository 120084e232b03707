package shm

import (
	"fmt"
	"math/bits"

	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	MinRingSlots = 8 // smallest number of slots in a ring
	maxRingSlots = 1 << 16
	MinRingBytes = 4 << 10 // smallest size in bytes of the payload area of a ring
	maxRingBytes = 64 << 20
)

// Geometry has the sizes of the rings in a segment, each a power of two.
type Geometry struct {
	// A ring for requests has RequestSlots slots and RequestBytes bytes of payload area.
	RequestSlots, RequestBytes uint32
	// A ring for responses has ResponseSlots slots and ResponseBytes bytes of payload
	// area.
	ResponseSlots, ResponseBytes uint32
}

// Check returns a *verbs.ParamError if a size is out of range or no power of two.
func (g Geometry) Check() error {
	for _, f := range []struct {
		name            string
		value, min, max uint32
	}{
		{"ring slots", g.RequestSlots, MinRingSlots, maxRingSlots},
		{"ring bytes", g.RequestBytes, MinRingBytes, maxRingBytes},
		{"response ring slots", g.ResponseSlots, MinRingSlots, maxRingSlots},
		{"response ring bytes", g.ResponseBytes, MinRingBytes, maxRingBytes},
	} {
		if f.value < f.min || f.value > f.max || bits.OnesCount32(f.value) != 1 {
			return &verbs.ParamError{Field: f.name, Value: int64(f.value), Limit: int64(f.max),
				Reason: fmt.Sprintf("not a power of two from %d to %d", f.min, f.max)}
		}
	}
	return nil
}
