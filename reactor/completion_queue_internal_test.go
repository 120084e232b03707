package reactor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/internal/testutil/faultcq"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newFaultQueue makes a completionQueue of a loop without connections. The parameter
// batch is the largest number of completions per poll.
func newFaultQueue(t *testing.T, depth, batch int) (*completionQueue, *faultcq.CQ) {
	group, err := cq.NewGroup(faultcq.New(&faultcq.Script{}), &cq.Config{Batch: batch})
	require.NoError(t, err)
	queue, err := group.NewQueue(depth)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, queue.Close())
		require.NoError(t, group.Close())
	})
	d := &loopDevice{loop: &Loop{cfg: &Config{Limits: Limits{CompletionBudget: batch}}}, group: group}
	return &completionQueue{device: d, queue: queue}, queue.CQ().(*faultcq.CQ)
}

// TestCatchUpEndsOnEmptyQueue checks that a catchUp handles all completions of a CQ.
func TestCatchUpEndsOnEmptyQueue(t *testing.T) {
	q, device := newFaultQueue(t, 100, 4)
	for range 9 {
		device.Complete(verbs.WC{})
	}
	var u catchUp
	require.False(t, u.poll(q))
	require.False(t, u.poll(q))
	require.True(t, u.poll(q))
	require.EqualValues(t, 9, q.handled)
	require.True(t, u.poll(q), "the CQ is still empty")
}

// TestCatchUpEndsOnFullQueue checks that a catchUp ends even if the CQ never becomes
// empty.
func TestCatchUpEndsOnFullQueue(t *testing.T) {
	const depth, batch = 10, 2
	q, device := newFaultQueue(t, depth, batch)
	for range depth {
		device.Complete(verbs.WC{})
	}
	var u catchUp
	polls := func() (n int) {
		for done := false; !done; n++ {
			require.Less(t, n, depth, "the catchUp does not end")
			done = u.poll(q)
			for range batch {
				device.Complete(verbs.WC{})
			}
		}
		return n
	}
	require.Equal(t, depth/batch, polls())
	require.EqualValues(t, depth, q.handled)
	require.Equal(t, depth/batch, polls())

	require.False(t, u.poll(q))
	device.Complete(verbs.WC{})
	device.Complete(verbs.WC{})
	u.reset()
	require.Equal(t, depth/batch, polls())
}
