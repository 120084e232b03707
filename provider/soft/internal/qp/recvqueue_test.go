//go:build linux

package qp

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestRecvQueueGrows checks that a deep receive queue begins with few entries, and that
// buffers keep their order when the queue grows.
func TestRecvQueueGrows(t *testing.T) {
	q := newRecvQueue(1000, 2)
	require.Len(t, q.entries, initialRecvEntries)
	buffer := func(id uint64) verbs.RecvWR {
		sges := []verbs.SGE{{Addr: id, Length: uint32(id)}, {Addr: id + 1, Length: 1}}
		return verbs.RecvWR{ID: id, SGEs: sges[:1+id%2]}
	}
	rng := rand.New(rand.NewPCG(5, 6))
	var posted, taken uint64
	for len(q.entries) < 1024 {
		for range rng.IntN(10) {
			if wr := buffer(posted); q.push(&wr) == nil {
				posted++
			}
		}
		for range rng.IntN(6) {
			var e rqe
			if !q.pop(&e) {
				continue
			}
			want := buffer(taken)
			require.Equal(t, want.ID, e.id)
			require.Equal(t, want.SGEs, e.sges)
			require.Equal(t, sizeOf(want.SGEs), e.size)
			taken++
			q.held-- // This frees the entry, as polling the completion would.
		}
	}
	for wr := buffer(posted); q.push(&wr) == nil; wr = buffer(posted) {
		posted++
	}
	require.EqualValues(t, 1000, posted-taken)
	require.ErrorIs(t, q.push(&verbs.RecvWR{}), verbs.ErrQueueFull)
}

// Posting to a receive queue of length 0 fails with a *verbs.ParamError.
// verbs.ErrQueueFull would mean that the caller can try again later.
func TestPostToReceiveQueueOfLengthZero(t *testing.T) {
	q := newRecvQueue(0, 1)
	_, err := q.post([]verbs.RecvWR{{ID: 1}})
	require.NotErrorIs(t, err, verbs.ErrQueueFull)
	var param *verbs.ParamError
	require.ErrorAs(t, err, &param)
	require.ErrorContains(t, err, "MaxRecvWR of the QP is 0")
}

// BenchmarkPostRecv posts one receive buffer and removes it from the receive queue.
func BenchmarkPostRecv(b *testing.B) {
	e := newFakeEnd(b, newFakeHost(b, 1), nil)
	e.connect()
	q := e.qp
	recvs := []verbs.RecvWR{{SGEs: []verbs.SGE{{Length: 4096}}}}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = q.PostRecv(recvs)
		q.popReceive(&q.buffer)
		q.rq.held--
	}
}
