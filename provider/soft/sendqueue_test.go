//go:build linux

package soft

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A send queue takes as many requests as its depth, and keeps their contents when it
// grows. That also holds when its 32-bit counters overflow.
func TestSendQueueGrows(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		caps := verbs.QPCaps{MaxSendWR: 1 + rng.IntN(70), MaxSendSGE: 1 + rng.IntN(3), MaxInline: 8 + rng.IntN(100)}
		q := newSendQueue(&caps)
		start := math.MaxUint32 - rng.Uint32N(64)
		q.done, q.next, q.begun, q.tail = start, start, start, start
		for pushed := uint64(0); pushed < 400; {
			if !q.full() && rng.IntN(9) > 3 {
				q.push(numbered(pushed, &caps), 8)
				pushed++
			} else if q.tail != q.done {
				q.retire()
			}
			oldest := pushed - uint64(q.tail-q.done)
			for i := range q.tail - q.done {
				requireNumbered(t, oldest+uint64(i), &caps, q.at(q.done+i))
			}
		}
		require.LessOrEqual(t, len(q.entries), ceilPow2(caps.MaxSendWR))
	}
}

// numbered returns a request whose ID, inline data and scatter/gather list contain a
// number.
func numbered(n uint64, caps *verbs.QPCaps) *verbs.SendWR {
	wr := verbs.SendWR{ID: n, Inline: make([]byte, caps.MaxInline), SGEs: make([]verbs.SGE, caps.MaxSendSGE)}
	binary.LittleEndian.PutUint64(wr.Inline, n)
	wr.SGEs[caps.MaxSendSGE-1].Addr = n
	return &wr
}

func requireNumbered(t *testing.T, n uint64, caps *verbs.QPCaps, w *wqe) {
	wr := numbered(n, caps)
	require.Equal(t, n, w.id)
	require.Equal(t, wr.Inline, w.inline)
	require.Equal(t, wr.SGEs, w.sges)
	require.Equal(t, caps.MaxInline, cap(w.inline), "a request does not overlap the storage of another")
	require.Equal(t, caps.MaxSendSGE, cap(w.sges))
}

// A new send queue has few entries, whatever its depth is.
func TestSendQueueBeginsSmall(t *testing.T) {
	q := newSendQueue(&verbs.QPCaps{MaxSendWR: 1 << 15, MaxSendSGE: 1, MaxInline: 128})
	require.Len(t, q.entries, initialSendEntries)
	q = newSendQueue(&verbs.QPCaps{MaxSendWR: 3, MaxSendSGE: 1})
	require.Len(t, q.entries, 4)
}
