package cq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/internal/testutil/faultcq"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestQueueFullBatchMeansMore(t *testing.T) {
	g, _ := newGroup(t, nil, &cq.Config{Batch: 2})
	q, c := newQueue(t, g, 8)
	complete(c, 1, 2, 3, 4, 5)

	require.Equal(t, []uint64{1, 2}, pollIDs(t, q))
	require.Equal(t, []uint64{3, 4}, pollIDs(t, q))
	require.Equal(t, []uint64{5}, pollIDs(t, q))
	require.Empty(t, pollIDs(t, q))
	require.Equal(t, cq.Stats{Polls: 4, EmptyPolls: 1, Completions: 5}, g.Stats())
}

func TestQueueErrorIsPermanent(t *testing.T) {
	g, _ := newGroup(t, nil, nil)
	q, c := newQueue(t, g, 1)
	c.FailPoll(errDevice)

	_, err := q.Poll()
	requireDeviceError(t, err, "poll CQ")
	c.FailPoll(nil)
	_, again := q.Poll()
	require.Equal(t, err, again)
	require.ErrorIs(t, q.Reserve(1), errDevice)
	require.NoError(t, q.Close())
}

func TestQueueDeliversCompletionsBeforeError(t *testing.T) {
	g, err := cq.NewGroup(pollFails{faultcq.New(&faultcq.Script{})}, nil)
	require.NoError(t, err)
	q, err := g.NewQueue(4)
	require.NoError(t, err)
	require.Equal(t, []uint64{3}, pollIDs(t, q))
	busy, err := g.Arm()
	require.NoError(t, err)
	require.True(t, busy, "Queue.Poll has not returned the error yet")
	_, err = q.Poll()
	requireDeviceError(t, err, "poll CQ")
	require.EqualValues(t, 1, g.Stats().Polls)
	requireIdle(t, g)
}

// A pollFails is a device whose CQs return a completion together with an error.
type pollFails struct{ *faultcq.Device }

type pollFailsCQ struct{ verbs.CQ }

func (d pollFails) CreateCQ(attr *verbs.CQAttr) (verbs.CQ, error) {
	c, err := d.Device.CreateCQ(attr)
	return pollFailsCQ{c}, err
}

func (pollFailsCQ) Poll(dst []verbs.WC) (int, error) {
	dst[0] = verbs.WC{ID: 3}
	return 1, errDevice
}

func TestQueueOverrunIsReported(t *testing.T) {
	g, _ := newGroup(t, nil, nil)
	q, c := newQueue(t, g, 1)
	complete(c, 1, 2)
	_, err := q.Poll()
	require.ErrorIs(t, err, verbs.ErrOverrun)
}

func TestQueueChecksPollResult(t *testing.T) {
	g, _ := newGroup(t, nil, &cq.Config{Batch: 4})
	q, c := newQueue(t, g, 8)
	c.OverReport(1)
	_, err := q.Poll()
	requireParam(t, err, "polled completions", 5, 4)
	require.Zero(t, g.Stats().Completions)
}

func TestQueueCloseWhileInUse(t *testing.T) {
	g, dev := newGroup(t, nil, nil)
	q, c := newQueue(t, g, 4)
	c.Use(1)
	require.ErrorIs(t, q.Close(), verbs.ErrBusy)

	complete(c, 7)
	require.Equal(t, []uint64{7}, pollIDs(t, q), "the queue continues to work")

	c.Use(-1)
	require.NoError(t, q.Close())
	require.NoError(t, q.Close(), "a second Close does nothing")
	require.Equal(t, 1, dev.Open(), "only the channel is open")
}

func TestQueueAfterClose(t *testing.T) {
	g, _ := newGroup(t, nil, nil)
	q, c := newQueue(t, g, 4)
	complete(c, 1)
	busy, err := g.Arm() // The queue now holds the completion.
	require.NoError(t, err)
	require.True(t, busy)
	require.NoError(t, q.Close())

	wcs, err := q.Poll()
	require.Empty(t, wcs)
	require.ErrorIs(t, err, verbs.ErrClosed)
	require.ErrorIs(t, q.Reserve(1), verbs.ErrClosed)
	q.Release(1)
	requireIdle(t, g)
}

func TestQueueCloseAcksEvents(t *testing.T) {
	g, _ := newGroup(t, nil, nil)
	q, c := newQueue(t, g, 4)
	for range 3 {
		requireIdle(t, g)
		complete(c, 1)
		requireConsumed(t, g, 1)
		require.Len(t, pollIDs(t, q), 1)
	}
	requireIdle(t, g)
	// The event of this completion is still in the channel at Close.
	complete(c, 1)

	require.NoError(t, q.Close())
	taken, acked := c.Events()
	require.Equal(t, 4, taken)
	require.Equal(t, 4, acked)
	require.EqualValues(t, 1, g.Stats().Acks, "one call acknowledges all events")
	require.EqualValues(t, 4, g.Stats().AckedEvents)
}

// An inlineDevice is a device whose CQs return "hello" with each completion that has memory
// for it.
type inlineDevice struct {
	*faultcq.Device
	caps verbs.Caps
}

type inlineCQ struct {
	*faultcq.CQ
	data []verbs.InlineData
}

func (d inlineDevice) Caps() verbs.Caps { return d.caps }

func (d inlineDevice) CreateCQ(attr *verbs.CQAttr) (verbs.CQ, error) {
	c, err := d.Device.CreateCQ(attr)
	return inlineCQ{c.(*faultcq.CQ), attr.Inline}, err
}

func (c inlineCQ) Poll(dst []verbs.WC) (int, error) {
	n, err := c.CQ.Poll(dst)
	for i := range min(n, len(c.data)) {
		dst[i].Flags, dst[i].ByteLen = verbs.WCInline, uint32(copy(c.data[i][:], "hello"))
	}
	return n, err
}

// TestQueuePollsInline checks that messages come inline only if the program wants it and
// the device can do it.
func TestQueuePollsInline(t *testing.T) {
	for name, test := range map[string]struct {
		caps   verbs.Caps
		config cq.Config
		inline bool
	}{
		"configured":             {verbs.Caps{RecvModes: true}, cq.Config{Inline: true, Batch: 2}, true},
		"not configured":         {verbs.Caps{RecvModes: true}, cq.Config{Batch: 2}, false},
		"device without ability": {verbs.Caps{}, cq.Config{Inline: true, Batch: 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := cq.NewGroup(inlineDevice{faultcq.New(&faultcq.Script{}), test.caps}, &test.config)
			require.NoError(t, err)
			q, err := g.NewQueue(8)
			require.NoError(t, err)
			complete(q.CQ().(inlineCQ).CQ, 1, 2, 3)
			for _, want := range []int{2, 1, 0} {
				wcs, err := q.Poll()
				require.NoError(t, err)
				require.Len(t, wcs, want)
				for i, wc := range wcs {
					require.Equal(t, test.inline, wc.Flags&verbs.WCInline != 0)
					if test.inline {
						require.Equal(t, "hello", string(q.InlineData(i)[:wc.ByteLen]))
					}
				}
			}
		})
	}
}

// TestEmptiedAfterArm checks Emptied after a Poll of completions that Arm had found.
func TestEmptiedAfterArm(t *testing.T) {
	g, _ := newGroup(t, nil, &cq.Config{Batch: 2})
	q, c := newQueue(t, g, 8)
	complete(c, 1)
	busy, err := g.Arm()
	require.NoError(t, err)
	require.True(t, busy)
	complete(c, 2, 3, 4)
	require.Equal(t, []uint64{1}, pollIDs(t, q))
	require.False(t, q.Emptied())
	require.Equal(t, []uint64{2, 3}, pollIDs(t, q))
	require.False(t, q.Emptied(), "the batch is full")
	require.Equal(t, []uint64{4}, pollIDs(t, q))
	require.True(t, q.Emptied())
	require.Empty(t, pollIDs(t, q))
	require.True(t, q.Emptied())
}
