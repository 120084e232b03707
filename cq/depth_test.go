package cq_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/internal/testutil/faultcq"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestReserveUpToTheDepth(t *testing.T) {
	g, _ := newGroup(t, &faultcq.Script{NoResize: true}, nil)
	q, _ := newQueue(t, g, 10)
	require.NoError(t, q.Reserve(6))
	require.NoError(t, q.Reserve(0))
	requireParam(t, q.Reserve(5), "completions", 11, 10)
	requireParam(t, q.Reserve(-1), "completions", -1, 0)
	requireParam(t, q.Reserve(math.MaxInt), "completions", math.MaxInt, 10)
	require.NoError(t, q.Reserve(4), "a refused reservation reserves nothing")
	requireParam(t, q.Reserve(1), "completions", 11, 10)
	require.EqualValues(t, 3, g.Stats().Refusals)
}

func TestReserveGrowsTheCQ(t *testing.T) {
	g, _ := newGroup(t, &faultcq.Script{MaxCQE: 100}, nil)
	q, c := newQueue(t, g, 10)
	for _, step := range []struct{ reserve, depth int }{
		{10, 10},
		{1, 20},  // 11 places are reserved in all, so the depth is doubled.
		{39, 50}, // 50 places in all are more than 2 * 20, so the depth becomes 50.
		{1, 100}, // 51 places are reserved in all, so the depth is doubled.
		{49, 100},
	} {
		require.NoError(t, q.Reserve(step.reserve))
		require.Equal(t, step.depth, c.Depth())
	}
	requireParam(t, q.Reserve(1), "completions", 101, 100)
	require.EqualValues(t, 3, g.Stats().Resizes)
}

func TestReserveWhenTheDeviceRefuses(t *testing.T) {
	g, _ := newGroup(t, nil, nil)
	q, c := newQueue(t, g, 10)
	c.FailResize(errDevice)
	err := q.Reserve(11)
	requireParam(t, err, "completions", 11, 10)
	require.ErrorIs(t, err, errDevice)
	require.NoError(t, q.Reserve(10))
}

func TestReserveChecksResize(t *testing.T) {
	g, err := cq.NewGroup(resizeIgnored{faultcq.New(&faultcq.Script{})}, nil)
	require.NoError(t, err)
	q, err := g.NewQueue(10)
	require.NoError(t, err)
	requireParam(t, q.Reserve(11), "completions", 11, 10)
	require.NoError(t, q.Reserve(10))
}

// A resizeIgnored is a device whose CQs ignore Resize.
type resizeIgnored struct{ *faultcq.Device }

type resizeIgnoredCQ struct{ verbs.CQ }

func (d resizeIgnored) CreateCQ(attr *verbs.CQAttr) (verbs.CQ, error) {
	c, err := d.Device.CreateCQ(attr)
	return resizeIgnoredCQ{c}, err
}

func (resizeIgnoredCQ) Resize(int) error { return nil }

func TestReleaseFreesAfterEmptyPoll(t *testing.T) {
	g, _ := newGroup(t, &faultcq.Script{NoResize: true}, nil)
	q, c := newQueue(t, g, 10)
	require.NoError(t, q.Reserve(10))
	complete(c, 1, 2, 3)
	q.Release(4)
	require.Error(t, q.Reserve(1), "the three completions may belong to the closed QP")

	require.Len(t, pollIDs(t, q), 3)
	require.NoError(t, q.Reserve(4))
	require.Error(t, q.Reserve(1))

	q.Release(4)
	require.Empty(t, pollIDs(t, q))
	require.NoError(t, q.Reserve(4), "an empty poll frees released places")
}

func TestReleaseWaitsForAShortPoll(t *testing.T) {
	g, _ := newGroup(t, &faultcq.Script{NoResize: true}, nil)
	q, c := newQueue(t, g, 128)
	require.NoError(t, q.Reserve(128))
	for range 65 {
		complete(c, 1)
	}
	q.Release(1)
	require.Len(t, pollIDs(t, q), 64)
	require.Error(t, q.Reserve(1), "a full batch means that there may be more")
	require.Len(t, pollIDs(t, q), 1)
	require.NoError(t, q.Reserve(1))
}

func TestReleaseIgnoresTooMany(t *testing.T) {
	g, _ := newGroup(t, &faultcq.Script{NoResize: true}, nil)
	q, _ := newQueue(t, g, 10)
	require.NoError(t, q.Reserve(10))
	q.Release(-1)
	q.Release(11)
	q.Release(6)
	q.Release(6)
	require.Empty(t, pollIDs(t, q))
	require.NoError(t, q.Reserve(6))
	require.Error(t, q.Reserve(1))
}

func TestRoom(t *testing.T) {
	for name, c := range map[string]struct {
		script faultcq.Script
		most   int
	}{
		"up to the device's limit": {faultcq.Script{MaxCQE: 100}, 100},
		"up to the depth":          {faultcq.Script{MaxCQE: 100, NoResize: true}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			g, _ := newGroup(t, &c.script, nil)
			q, device := newQueue(t, g, 10)
			require.Equal(t, c.most, q.Room())
			require.NoError(t, q.Reserve(c.most))
			require.Zero(t, q.Room())
			q.Release(4)
			require.Zero(t, q.Room(), "released places may still hold completions")
			require.Empty(t, pollIDs(t, q))
			require.Equal(t, 4, q.Room())
			require.NoError(t, q.Reserve(4))

			q.Release(4)
			require.Empty(t, pollIDs(t, q))
			device.FailPoll(errDevice)
			_, err := q.Poll()
			require.ErrorIs(t, err, errDevice)
			require.Zero(t, q.Room(), "the CQ has failed")
		})
	}
}
