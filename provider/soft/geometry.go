package soft

import (
	"fmt"
	"math/bits"

	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	minRingSlots = 8
	maxRingSlots = 1 << 16
	minRingBytes = 4 << 10
	maxRingBytes = 64 << 20
)

// geometry is the size of a segment's rings; each number is a power of two.
type geometry struct {
	requestSlots, requestBytes   uint32
	responseSlots, responseBytes uint32
}

func (g geometry) check() error {
	for _, f := range []struct {
		name            string
		value, min, max uint32
	}{
		{"ring slots", g.requestSlots, minRingSlots, maxRingSlots},
		{"ring bytes", g.requestBytes, minRingBytes, maxRingBytes},
		{"response ring slots", g.responseSlots, minRingSlots, maxRingSlots},
		{"response ring bytes", g.responseBytes, minRingBytes, maxRingBytes},
	} {
		if f.value < f.min || f.value > f.max || bits.OnesCount32(f.value) != 1 {
			return &verbs.ParamError{Field: f.name, Value: int64(f.value), Limit: int64(f.max),
				Reason: fmt.Sprintf("not a power of two from %d to %d", f.min, f.max)}
		}
	}
	return nil
}
