package cq_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/internal/testutil/faultcq"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// completesDuringArm creates a group with one queue. A completion arrives during Arm,
// right after the poll.
func completesDuringArm(t *testing.T, script *faultcq.Script) (*cq.Group, *cq.Queue) {
	var c *faultcq.CQ
	calls := 0
	script.Between = func() {
		// Between is called before and after each method of a CQ. Call 4 comes after the
		// poll.
		if calls++; calls == 4 {
			complete(c, 1)
		}
	}
	g, _ := newGroup(t, script, nil)
	q, c1 := newQueue(t, g, 8)
	c = c1
	return g, q
}

// TestWait checks that Wait returns when there is a completion.
func TestWait(t *testing.T) {
	g, _ := newGroup(t, nil, nil)
	q, c := newQueue(t, g, 8)
	complete(c, 7)
	require.NoError(t, g.Wait(t.Context()))
	require.Equal(t, []uint64{7}, pollIDs(t, q))

	g, q = completesDuringArm(t, &faultcq.Script{})
	require.NoError(t, g.Wait(t.Context()))
	require.Equal(t, []uint64{1}, pollIDs(t, q))
	require.EqualValues(t, 1, g.Stats().Events)
	require.Zero(t, g.Stats().Rescues)
}

// TestWaitFindsLostEvent checks that Wait returns even though the event was lost.
func TestWaitFindsLostEvent(t *testing.T) {
	g, q := completesDuringArm(t, &faultcq.Script{Drop: 100})
	require.NoError(t, g.WaitFor(t.Context(), time.Nanosecond))
	require.Equal(t, []uint64{1}, pollIDs(t, q))
	require.EqualValues(t, 1, g.Stats().Rescues)
}

// TestWaitEnds checks that Wait ends with its context, and fails on a closed group.
func TestWaitEnds(t *testing.T) {
	g, _ := newGroup(t, nil, nil)
	q, _ := newQueue(t, g, 8)
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	require.ErrorIs(t, g.Wait(ctx), context.Canceled)
	require.NoError(t, q.Close())
	require.NoError(t, g.Close())
	require.ErrorIs(t, g.Wait(t.Context()), verbs.ErrClosed)
}
