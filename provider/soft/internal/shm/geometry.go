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

// Geometry has the sizes of the rings in a segment. Each size is a power of two.
type Geometry struct {
	// RequestSlots is the number of slots, and RequestBytes the size in bytes of the
	// payload area, of each ring for requests.
	RequestSlots, RequestBytes uint32
	// ResponseSlots is the number of slots, and ResponseBytes the size in bytes of the
	// payload area, of each ring for responses.
	ResponseSlots, ResponseBytes uint32
}

// Check returns a *verbs.ParamError if a size is out of range or is not a power of two.
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
