package shm_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// The numbers must not change, because the two sides of a connection may use different
// versions of the library.
func TestAckLayout(t *testing.T) {
	require.EqualValues(t, uint64(0x000003_62_00000007), shm.NewAck(7, shm.FailureNAK(shm.AccessError), 3))
	require.EqualValues(t, 0x2c, shm.RNRNAK(12))
	a := shm.NewAck(math.MaxUint32, shm.RNRNAK(31), 1<<24+5)
	require.EqualValues(t, uint32(math.MaxUint32), a.Consumed())
	require.Equal(t, shm.RNRNAK(31), a.NAK())
	require.EqualValues(t, 5, a.NAKs(), "the number of NAKs has 24 bits")
}

// Every value of a NAK, from 0 to 255, belongs to exactly one of three groups: RNR NAKs,
// NAKs of failed requests, and invalid values.
func TestNAK(t *testing.T) {
	for v := range 256 {
		n := shm.NAK(v)
		timer, rnr := n.RNRTimer()
		failure, failed := n.Failure()
		require.Equal(t, v>>5 == 1, rnr, "%#x", v)
		require.Equal(t, v >= 0x61 && v <= 0x63, failed, "%#x", v)
		if rnr {
			require.Equal(t, n, shm.RNRNAK(timer))
		}
		if failed {
			require.Equal(t, n, shm.FailureNAK(failure))
		}
	}
}
