package cq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/internal/testutil/faultcq"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newGroup creates a group on a simulated device. The script says which faults the
// device has; nil means none.
func newGroup(t testing.TB, script *faultcq.Script, cfg *cq.Config) (*cq.Group, *faultcq.Device) {
	t.Helper()
	if script == nil {
		script = &faultcq.Script{}
	}
	dev := faultcq.New(script)
	g, err := cq.NewGroup(dev, cfg)
	require.NoError(t, err)
	return g, dev
}

// newQueue creates a queue. It also returns the CQ of the simulated device.
func newQueue(t testing.TB, g *cq.Group, depth int) (*cq.Queue, *faultcq.CQ) {
	t.Helper()
	q, err := g.NewQueue(depth)
	require.NoError(t, err)
	return q, deviceCQ(q)
}

func deviceCQ(q *cq.Queue) *faultcq.CQ { return q.CQ().(*faultcq.CQ) }

// complete adds completions with the given ids to the CQ.
func complete(c *faultcq.CQ, ids ...uint64) {
	for _, id := range ids {
		c.Complete(verbs.WC{ID: id})
	}
}

// pollIDs polls once and returns the ids of the completions.
func pollIDs(t testing.TB, q *cq.Queue) []uint64 {
	t.Helper()
	wcs, err := q.Poll()
	require.NoError(t, err)
	var ids []uint64
	for _, wc := range wcs {
		ids = append(ids, wc.ID)
	}
	return ids
}

// requireIdle requires that Arm finds no completions.
func requireIdle(t testing.TB, g *cq.Group) {
	t.Helper()
	busy, err := g.Arm()
	require.NoError(t, err)
	require.False(t, busy)
}

func requireConsumed(t testing.TB, g *cq.Group, want int) {
	t.Helper()
	n, err := g.Consume()
	require.NoError(t, err)
	require.Equal(t, want, n)
}

func requireParam(t testing.TB, err error, field string, value, limit int64) {
	t.Helper()
	var op *verbs.OpError
	require.ErrorAs(t, err, &op)
	var param *verbs.ParamError
	require.ErrorAs(t, err, &param)
	require.Equal(t, field, param.Field)
	require.Equal(t, value, param.Value)
	require.Equal(t, limit, param.Limit)
}
