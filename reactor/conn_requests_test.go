package reactor

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSendRequests checks that the ring begins small, and keeps the outstanding requests
// when it grows and when their numbers wrap.
func TestSendRequests(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, limit := range []int{1, 5, 63} {
		f := newSendFlow(limit, 1, 0)
		f.tail = math.MaxUint32 - 20
		f.posted, f.head = f.tail, f.tail
		var s sendRequests
		var added, retired uint64
		for range 1000 {
			if rng.IntN(9) > 3 && f.outstanding() <= uint32(limit) {
				slot, signaled := f.next(true)
				*s.add(&f, slot) = sendRequest{tag: added}
				f.accepted(signaled)
				f.posted++
				added++
			} else if f.outstanding() > 0 {
				require.Equal(t, retired, s.at(f.retire()).tag)
				retired++
			}
			require.LessOrEqual(t, len(s.ring), max(initialRequests, 2*int(f.outstanding()), f.size()))
		}
		require.Greater(t, retired, uint64(100))
	}
	f := newSendFlow(63, 16, 0)
	var s sendRequests
	slot, _ := f.next(false)
	s.add(&f, slot)
	require.Len(t, s.ring, initialRequests)
}
