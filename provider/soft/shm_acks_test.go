//go:build linux

package soft

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

func TestSHMSentAcknowledge(t *testing.T) {
	// The 32-bit counter of consumed slots overflows during the test.
	const start = math.MaxUint32 - 1
	s := shmSent{seq: start + 4, acked: start}
	for _, c := range []struct {
		consumed          uint32
		naks              uint32
		progress, nak, ok bool
		acked             uint64
	}{
		{math.MaxUint32 - 2, 0, false, false, false, start},
		{math.MaxUint32, 0, true, false, true, start + 1},
		{0, 1, true, true, true, start + 2},
		{0, 1, false, false, true, start + 2},
		{0, 2, false, true, true, start + 2},
		{3, 2, false, false, false, start + 2},
		{2, 2, true, false, true, start + 4},
	} {
		progress, nak, ok := s.acknowledge(shm.NewAck(c.consumed, shm.RNRNAK(1), c.naks))
		require.Equal(t, []bool{c.progress, c.nak, c.ok}, []bool{progress, nak, ok}, "%+v", c)
		require.Equal(t, c.acked, s.acked, "%+v", c)
	}
}

func TestSHMAcks(t *testing.T) {
	var a shmAcks
	require.False(t, a.due(2))
	a.consumed(false)
	require.False(t, a.due(2))
	a.consumed(false)
	require.True(t, a.due(2), "too many slots are not acknowledged")
	require.Equal(t, shm.NewAck(7, 0, 0), a.acknowledge(7))
	a.consumed(true)
	a.consumed(false)
	require.True(t, a.due(100), "the peer waits")
	require.Equal(t, shm.NewAck(9, shm.RNRNAK(3), 1), a.refuse(9, shm.RNRNAK(3)))
	require.Equal(t, shmAcks{naks: 1, last: shm.RNRNAK(3)}, a)
	require.Equal(t, shm.NewAck(10, shm.RNRNAK(3), 1), a.acknowledge(10), "the NAK is not a new one")
}
