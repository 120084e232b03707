package random_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/random"
)

// Random numbers hardly ever repeat: for 16 numbers, the probability is 2^-25.
func TestUint32(t *testing.T) {
	var source random.Source
	seen := make(map[uint32]bool)
	for range 16 {
		seen[source.Uint32()] = true
	}
	require.Greater(t, len(seen), 14)
}

// countingHost is a simulated host whose random numbers are 1, 2, 3 and so on.
type countingHost struct {
	simhost.Host
	last uint64
}

func (h *countingHost) Random() uint64 {
	h.last++
	return h.last
}

func TestSimulatedHost(t *testing.T) {
	source := random.From(&countingHost{last: 1 << 32})
	require.EqualValues(t, 1, source.Uint32())
	require.Equal(t, uint64(1<<32+2), source.Uint64())
}

// IntN returns every number of its range, and no other one.
func TestIntN(t *testing.T) {
	seen := make([]int, 3)
	for range 300 {
		seen[random.Source{}.IntN(3)]++
	}
	for _, n := range seen {
		require.Positive(t, n)
	}
}
