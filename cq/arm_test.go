package cq_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/internal/testutil/faultcq"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestArmFindsEarlierCompletions(t *testing.T) {
	g, _ := newGroup(t, nil, &cq.Config{Batch: 2})
	q, c := newQueue(t, g, 8)
	other, _ := newQueue(t, g, 8)
	complete(c, 1, 2, 3)

	// Arm keeps what it has polled, so the second Arm need not poll this CQ.
	for range 2 {
		busy, err := g.Arm()
		require.NoError(t, err)
		require.True(t, busy)
	}
	require.EqualValues(t, 1+2, g.Stats().Polls, "a queue that holds completions is not polled")
	require.Equal(t, []uint64{1, 2}, pollIDs(t, q))
	require.Empty(t, pollIDs(t, other))
	require.Equal(t, []uint64{3}, pollIDs(t, q))
	requireIdle(t, g)
}

func TestArmFindsCompletionDuringArm(t *testing.T) {
	var c [2]*faultcq.CQ
	calls := 0
	script := &faultcq.Script{Between: func() {
		// Between is called before and after each method of a CQ. Call 6 comes after the
		// poll of the first CQ, so this poll does not find the completion.
		if calls++; calls == 6 {
			complete(c[0], 1)
		}
	}}
	g, dev := newGroup(t, script, nil)
	_, c[0] = newQueue(t, g, 8)
	_, c[1] = newQueue(t, g, 8)
	requireIdle(t, g)
	require.Equal(t, 8, calls)
	require.Equal(t, 1, dev.Counts().Raised, "the poll missed the completion, and an event reports it")
	requireConsumed(t, g, 1)
}

func TestArmOnlyOncePerEvent(t *testing.T) {
	g, _ := newGroup(t, nil, nil)
	q, c := newQueue(t, g, 8)
	for range 3 {
		requireIdle(t, g)
	}
	require.EqualValues(t, 1, g.Stats().Arms)

	complete(c, 1)
	require.Len(t, pollIDs(t, q), 1)
	requireIdle(t, g)
	require.EqualValues(t, 1, g.Stats().Arms, "the event waits in the channel")

	requireConsumed(t, g, 1)
	requireIdle(t, g)
	require.EqualValues(t, 2, g.Stats().Arms)
	require.True(t, c.Armed())
}

func TestArmFailureOfOneDoesNotStopTheOthers(t *testing.T) {
	g, _ := newGroup(t, nil, nil)
	_, first := newQueue(t, g, 8)
	_, second := newQueue(t, g, 8)
	last, third := newQueue(t, g, 8)
	first.FailArm(errDevice)
	second.FailArm(verbs.ErrClosed)
	complete(third, 9)

	busy, err := g.Arm()
	require.True(t, busy)
	require.ErrorIs(t, err, errDevice)
	require.ErrorIs(t, err, verbs.ErrClosed)
	require.True(t, third.Armed())
	require.Equal(t, []uint64{9}, pollIDs(t, last))

	busy, err = g.Arm()
	require.Error(t, err)
	require.True(t, busy, "not armed: do not sleep")

	first.FailArm(nil)
	second.FailArm(nil)
	requireIdle(t, g)
	require.True(t, first.Armed())
	require.EqualValues(t, 3, g.Stats().Arms)
}

func TestPollFailureOfOneDoesNotStopTheOthers(t *testing.T) {
	g, _ := newGroup(t, nil, nil)
	broken, first := newQueue(t, g, 8)
	works, second := newQueue(t, g, 8)
	first.FailPoll(errDevice)
	complete(second, 5)

	busy, err := g.Arm()
	require.NoError(t, err)
	require.True(t, busy)
	require.Equal(t, []uint64{5}, pollIDs(t, works))

	busy, err = g.Arm()
	require.NoError(t, err)
	require.True(t, busy, "Queue.Poll has not returned the error yet")
	_, err = broken.Poll()
	requireDeviceError(t, err, "poll CQ")

	requireIdle(t, g)
	complete(second, 6)
	requireConsumed(t, g, 1)
	require.Equal(t, []uint64{6}, pollIDs(t, works))
}

func TestArmSkipsBrokenQueue(t *testing.T) {
	g, _ := newGroup(t, nil, nil)
	broken, c := newQueue(t, g, 8)
	c.FailPoll(errDevice)
	c.FailArm(errDevice)
	_, err := broken.Poll()
	require.Error(t, err)
	requireIdle(t, g)
}

func TestConsumeAcksInBulk(t *testing.T) {
	g, _ := newGroup(t, nil, &cq.Config{AckEvery: 3})
	q, c := newQueue(t, g, 8)
	for i := range 7 {
		requireIdle(t, g)
		complete(c, uint64(i))
		requireConsumed(t, g, 1)
		require.Len(t, pollIDs(t, q), 1)
		taken, acked := c.Events()
		require.Equal(t, i+1, taken)
		require.Equal(t, (i+1)/3*3, acked)
	}
	require.EqualValues(t, 2, g.Stats().Acks)
	require.EqualValues(t, 7, g.Stats().Events)
}

func TestConsumeCountsUnaskedEvents(t *testing.T) {
	g, _ := newGroup(t, &faultcq.Script{Duplicate: 100}, nil)
	q, c := newQueue(t, g, 8)
	requireIdle(t, g)
	complete(c, 1)
	requireConsumed(t, g, 2)
	require.EqualValues(t, 1, g.Stats().UnaskedEvents)
	require.Len(t, pollIDs(t, q), 1)
	require.NoError(t, q.Close())
	taken, acked := c.Events()
	require.Equal(t, []int{2, 2}, []int{taken, acked})
}

func TestConsumeIgnoresEventsOfClosedQueues(t *testing.T) {
	g, dev := newGroup(t, &faultcq.Script{KeepStale: true, Delay: 100}, nil)
	old, c := newQueue(t, g, 8)
	requireIdle(t, g)
	complete(c, 1)
	require.NoError(t, old.Close())

	// The new queue reuses the table index of the closed queue, but must not get its
	// event.
	_, successor := newQueue(t, g, 8)
	requireIdle(t, g)
	dev.Advance()
	requireConsumed(t, g, 1)
	require.EqualValues(t, 1, g.Stats().StaleEvents)
	requireIdle(t, g)
	require.EqualValues(t, 2, g.Stats().Arms, "the stale event was not taken for one of the new queue")
	require.True(t, successor.Armed())
}

func TestConsumeIsBounded(t *testing.T) {
	dev := endlessEvents{faultcq.New(&faultcq.Script{})}
	g, err := cq.NewGroup(dev, nil)
	require.NoError(t, err)
	n, err := g.Consume()
	require.NoError(t, err)
	require.Positive(t, n)
}

// An endlessEvents is a device whose channels always have another event.
type endlessEvents struct{ *faultcq.Device }

type endlessEventsChannel struct{ verbs.CompChannel }

func (d endlessEvents) CreateCompChannel(attr *verbs.CompChannelAttr) (verbs.CompChannel, error) {
	c, err := d.Device.CreateCompChannel(attr)
	return endlessEventsChannel{c}, err
}

func (endlessEventsChannel) Next() (uint64, bool, error) { return 12345, true, nil }

func TestConsumeReportsAChannelThatFails(t *testing.T) {
	dev := &failingDevice{Device: faultcq.New(&faultcq.Script{})}
	g, err := cq.NewGroup(dev, nil)
	require.NoError(t, err)
	dev.channel.Fail(errDevice)
	n, err := g.Consume()
	require.Zero(t, n)
	requireDeviceError(t, err, "get CQ event")
}

// A failingDevice lets a test make its channel fail.
type failingDevice struct {
	*faultcq.Device
	channel *faultcq.Channel
}

func (d *failingDevice) CreateCompChannel(attr *verbs.CompChannelAttr) (verbs.CompChannel, error) {
	c, err := d.Device.CreateCompChannel(attr)
	if err != nil {
		return nil, errors.Join(errDevice, err)
	}
	d.channel = c.(*faultcq.Channel)
	return c, nil
}

func TestRescuedArmsAgain(t *testing.T) {
	g, _ := newGroup(t, &faultcq.Script{Drop: 100}, nil)
	q, c := newQueue(t, g, 8)
	requireIdle(t, g)
	complete(c, 1) // The device loses the event.

	requireConsumed(t, g, 0)
	require.Equal(t, []uint64{1}, pollIDs(t, q))
	requireIdle(t, g)
	require.False(t, c.Armed(), "the queue still counts as armed")

	g.Rescued()
	requireIdle(t, g)
	require.True(t, c.Armed())
	require.EqualValues(t, 1, g.Stats().Rescues)
}

func TestSolicitedOnly(t *testing.T) {
	g, dev := newGroup(t, nil, &cq.Config{SolicitedOnly: true})
	q, c := newQueue(t, g, 8)
	requireIdle(t, g)
	complete(c, 1)
	requireConsumed(t, g, 0)
	c.CompleteSolicited(verbs.WC{ID: 2})
	requireConsumed(t, g, 1)
	require.Equal(t, []uint64{1, 2}, pollIDs(t, q))

	requireIdle(t, g)
	c.Complete(verbs.WC{ID: 3, Status: verbs.StatusWRFlushErr})
	require.Equal(t, 2, dev.Counts().Raised, "a failed completion raises an event")

	g.Rescued()
	require.Zero(t, g.Stats().Rescues, "no event was lost")
}
