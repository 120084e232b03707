package cq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestTurnDoesNotAllocate(t *testing.T) {
	g, _ := newGroup(t, nil, nil)
	q, c := newQueue(t, g, 64)
	turn := func() {
		_, _ = q.Poll()
		_, _ = g.Arm()
		for id := range uint64(3) {
			c.Complete(verbs.WC{ID: id})
		}
		_, _ = g.Consume()
		_, _ = q.Poll()
	}
	// In the first turn the queues allocate their memory.
	turn()
	before := g.Stats()
	require.Zero(t, testing.AllocsPerRun(1000, turn))

	// AllocsPerRun also calls turn() once without measuring it.
	after := g.Stats()
	require.EqualValues(t, 1001, after.Arms-before.Arms)
	require.EqualValues(t, 1001, after.Events-before.Events)
	require.EqualValues(t, 3003, after.Completions-before.Completions)
	require.Greater(t, after.Acks, before.Acks)
}

func BenchmarkPollEmpty(b *testing.B) {
	g, _ := newGroup(b, nil, nil)
	q, err := g.NewQueue(64)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = q.Poll()
	}
}

// BenchmarkDevicePollEmpty measures only the simulated device, for comparison with
// BenchmarkPollEmpty.
func BenchmarkDevicePollEmpty(b *testing.B) {
	g, _ := newGroup(b, nil, nil)
	q, err := g.NewQueue(64)
	require.NoError(b, err)
	cq, dst := q.CQ(), make([]verbs.WC, 64)
	for b.Loop() {
		_, _ = cq.Poll(dst)
	}
}
