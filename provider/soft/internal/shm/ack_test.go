package shm_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// The layout of an Ack and of a NAK must not change, because the two sides may have
// different versions of the library.
func TestAckLayout(t *testing.T) {
	require.EqualValues(t, uint64(0x00000003_00000007), shm.NewAck(7, 3))
	require.EqualValues(t, 0x2c, shm.RNRNAK(12))
	require.EqualValues(t, 0x62, shm.FailureNAK(shm.AccessError))
	a := shm.NewAck(math.MaxUint32, math.MaxUint32-1)
	require.EqualValues(t, uint32(math.MaxUint32), a.Consumed())
	require.EqualValues(t, uint32(math.MaxUint32-1), a.Executed())
}

// Every value of an NAK from 0 to 255 has one meaning: an RNR NAK, the reason of a
// failure, or invalid.
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
