//go:build linux

package qp

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A send queue takes as many requests as its depth. The requests keep their contents
// when the queue grows. The 32-bit counters overflow during the test.
func TestSendQueueGrows(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		caps := verbs.QPCaps{MaxSendWR: 1 + rng.IntN(70), MaxSendSGE: 1 + rng.IntN(3), MaxInline: 8 + rng.IntN(100)}
		q := newSendQueue(&caps)
		start := math.MaxUint32 - rng.Uint32N(64)
		q.oldest, q.next, q.firstNew, q.tail = start, start, start, start
		for pushed := uint64(0); pushed < 400; {
			if !q.full() && rng.IntN(9) > 3 {
				q.push(numbered(pushed, &caps), 8)
				pushed++
			} else if q.tail != q.oldest {
				q.retire()
			}
			oldest := pushed - uint64(q.tail-q.oldest)
			for i := range q.tail - q.oldest {
				requireNumbered(t, oldest+uint64(i), &caps, q.at(q.oldest+i))
			}
		}
		require.LessOrEqual(t, len(q.entries), ceilPow2(caps.MaxSendWR))
	}
}

// A bind that waits keeps its arguments when the queue grows, and other requests need no
// memory for such arguments.
func TestSendQueueGrowsWithBinds(t *testing.T) {
	caps := verbs.QPCaps{MaxSendWR: 64, MaxSendSGE: 1, MaxInline: 8}
	q := newSendQueue(&caps)
	q.oldest, q.next, q.firstNew, q.tail = math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32
	q.push(numbered(0, &caps), 8)
	require.Nil(t, q.binds)
	for n := uint64(1); n < 64; n++ {
		bind := verbs.MWBind{MW: new(mw), MR: new(mr), Addr: n}
		q.push(&verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &bind}, 0)
		for i := uint64(1); i <= n; i++ {
			require.Equal(t, i, q.bindAt(q.oldest+uint32(i)).addr)
		}
	}
}

// numbered returns a request with the number n in its ID, its inline data and its
// scatter/gather list.
func numbered(n uint64, caps *verbs.QPCaps) *verbs.SendWR {
	wr := verbs.SendWR{ID: n, Inline: make([]byte, caps.MaxInline), SGEs: make([]verbs.SGE, caps.MaxSendSGE)}
	binary.LittleEndian.PutUint64(wr.Inline, n)
	wr.SGEs[caps.MaxSendSGE-1].Addr = n
	return &wr
}

func requireNumbered(t *testing.T, n uint64, caps *verbs.QPCaps, w *WQE) {
	// Functions of package require are slow, and there are millions of checks.
	wr := numbered(n, caps)
	if w.id != n || !bytes.Equal(wr.Inline, w.inline) || !slices.Equal(wr.SGEs, w.sges) {
		require.FailNow(t, "a request has changed", "want %v, got %v", wr, w)
	}
	if cap(w.inline) != caps.MaxInline || cap(w.sges) != caps.MaxSendSGE {
		require.FailNow(t, "a request overlaps the storage of another", "%v", w)
	}
}

// sentRequests returns a send queue with n sent requests of one fragment, numbered from
// 0. The queue's 32-bit counters overflow after the first request.
func sentRequests(n int) sendQueue {
	caps := verbs.QPCaps{MaxSendWR: n, MaxSendSGE: 1, MaxInline: 8}
	q := newSendQueue(&caps)
	start := uint32(math.MaxUint32)
	q.oldest, q.next, q.firstNew, q.tail = start, start, start, start
	for i := range uint64(n) {
		q.push(numbered(i, &caps), 8)
		q.at(q.next).LastSeq = i
		q.next, q.firstNew = q.next+1, q.firstNew+1
	}
	return q
}

func TestSendQueueDone(t *testing.T) {
	q := sentRequests(4)
	done := func(acked uint64) (n int) {
		for i := q.oldest; i != q.tail; i++ {
			if q.at(i).done(acked) {
				n++
			}
		}
		return n
	}
	require.Zero(t, done(0))
	require.Equal(t, 2, done(2))
	q.at(q.oldest + 3).LastSeq = Unsent
	require.Equal(t, 3, done(Unsent), "the last fragment of the last request was not sent")
	q.at(q.oldest).Op = verbs.OpRead
	require.Equal(t, 2, done(Unsent), "the response to the first request is not complete")
	q.at(q.oldest).responseComplete = true
	require.Equal(t, 3, done(Unsent))
}

// After an RNR NAK, the refused request and all later requests are sent again.
func TestSendQueueRewindsTo(t *testing.T) {
	q := sentRequests(4)
	first := q.oldest
	require.False(t, q.rewindTo(4), "no request was sent at the sequence 4")
	require.True(t, q.rewindTo(2))
	require.Equal(t, []uint32{first, first + 2, first + 4}, []uint32{q.oldest, q.next, q.firstNew})
	require.True(t, q.at(first+1).done(2))
	for i := first + 2; i != q.tail; i++ {
		require.False(t, q.at(i).done(4), "the old sequence does not count")
	}
}

// A new send queue has no entries, and after its first request only few, even if it is
// deep.
func TestSendQueueBeginsSmall(t *testing.T) {
	for depth, want := range map[int]int{1: 1, 1 << 15: initialSendEntries} {
		q := newSendQueue(&verbs.QPCaps{MaxSendWR: depth, MaxSendSGE: 1, MaxInline: 128})
		require.Empty(t, q.entries)
		q.push(&verbs.SendWR{Opcode: verbs.OpSend}, 0)
		require.Len(t, q.entries, want)
	}
}
