package cq_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/internal/testutil/faultcq"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A spinning is a device whose CQs are verbs.SpinPollers. Their method PollSpin records
// its time limit and does not wait.
type spinning struct {
	*faultcq.Device
	waits *[]time.Duration
}

type spinningCQ struct {
	*faultcq.CQ
	waits *[]time.Duration
}

func (d spinning) CreateCQ(attr *verbs.CQAttr) (verbs.CQ, error) {
	c, err := d.Device.CreateCQ(attr)
	if err != nil {
		return nil, err
	}
	return spinningCQ{c.(*faultcq.CQ), d.waits}, nil
}

func (c spinningCQ) PollSpin(dst []verbs.WC, limit time.Duration) (int, error) {
	*c.waits = append(*c.waits, limit)
	return c.Poll(dst)
}

func newSpinning(t *testing.T) (g *cq.Group, q *cq.Queue, c *faultcq.CQ, waits *[]time.Duration) {
	t.Helper()
	waits = new([]time.Duration)
	g, err := cq.NewGroup(spinning{faultcq.New(&faultcq.Script{}), waits}, nil)
	require.NoError(t, err)
	q, err = g.NewQueue(8)
	require.NoError(t, err)
	return g, q, q.CQ().(spinningCQ).CQ, waits
}

func TestSpinWaitsInsideTheProvider(t *testing.T) {
	g, q, c, waits := newSpinning(t)
	require.True(t, q.CanSpin())
	wcs, err := q.Spin(5 * time.Microsecond)
	require.NoError(t, err)
	require.Empty(t, wcs)

	complete(c, 1, 2)
	wcs, err = q.Spin(7 * time.Microsecond)
	require.NoError(t, err)
	require.Len(t, wcs, 2)
	require.Equal(t, []time.Duration{5 * time.Microsecond, 7 * time.Microsecond}, *waits)
	require.Equal(t, cq.Stats{Polls: 2, EmptyPolls: 1, Completions: 2}, g.Stats())
}

func TestOnlySpinWaits(t *testing.T) {
	g, q, c, waits := newSpinning(t)
	require.Empty(t, polled(t, q))
	_, err := q.Spin(0)
	require.NoError(t, err)
	requireIdle(t, g)

	complete(c, 1)
	busy, err := g.Arm()
	require.NoError(t, err)
	require.True(t, busy)
	wcs, err := q.Spin(time.Hour)
	require.NoError(t, err)
	require.Len(t, wcs, 1, "Spin does not wait if a completion is held")
	require.Empty(t, *waits)
}

func TestSpinReturnsPollErrors(t *testing.T) {
	_, q, c, waits := newSpinning(t)
	c.FailPoll(errDevice)
	for range 2 {
		_, err := q.Spin(time.Microsecond)
		requireDeviceError(t, err, "poll CQ")
	}
	require.Len(t, *waits, 1, "the error is permanent and the CQ is not polled again")
}

// If a CQ is not a verbs.SpinPoller, Spin polls it once and does not wait.
func TestSpinWithoutTheAbility(t *testing.T) {
	g, _ := newGroup(t, nil, nil)
	q, c := newQueue(t, g, 8)
	require.False(t, q.CanSpin())
	wcs, err := q.Spin(time.Hour)
	require.NoError(t, err)
	require.Empty(t, wcs)
	complete(c, 1)
	wcs, err = q.Spin(time.Hour)
	require.NoError(t, err)
	require.Len(t, wcs, 1)
}

func TestSpinDoesNotAllocate(t *testing.T) {
	_, q, c, waits := newSpinning(t)
	turn := func() {
		*waits = (*waits)[:0]
		c.Complete(verbs.WC{ID: 1})
		_, _ = q.Spin(time.Microsecond)
		_, _ = q.Spin(time.Microsecond)
	}
	turn() // In the first turn, the queues of the simulated device allocate their memory.
	require.Zero(t, testing.AllocsPerRun(100, turn))
}
