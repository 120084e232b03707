package wire

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// crcUpdate is the same as crc32.Update for all lengths, alignments and initial sums.
func TestCRCUpdate(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, MaxPacket+64)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	check := func(b []byte) {
		sum := random.Uint32()
		require.Equal(t, crc32.Update(sum, crc32.IEEETable, b), crcUpdate(sum, b), "%d bytes", len(b))
	}
	for at := range 33 {
		for n := range 600 {
			check(b[at:][:n])
		}
	}
	for n := range MaxPacket + 1 {
		check(b[:n])
	}
}
