package random_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/random"
)

// Random numbers hardly ever repeat: for 16 numbers, the probability is 2^-25.
func TestUint32(t *testing.T) {
	seen := make(map[uint32]bool)
	for range 16 {
		seen[random.Uint32()] = true
	}
	require.Greater(t, len(seen), 14)
}
