package faultcq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/faultcq"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A rig is a device with one channel and one CQ.
type rig struct {
	t       *testing.T
	dev     *faultcq.Device
	channel verbs.CompChannel
	cq      *faultcq.CQ
}

func newRig(t *testing.T, script faultcq.Script) *rig {
	dev := faultcq.New(&script)
	channel, err := dev.CreateCompChannel(nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		// Close fails if the test has left CQs open. No other test uses the channel.
		_ = channel.Close()
	})
	r := &rig{t: t, dev: dev, channel: channel}
	r.cq = r.newCQ(7)
	return r
}

func (r *rig) newCQ(cookie uint64) *faultcq.CQ {
	c, err := r.dev.CreateCQ(&verbs.CQAttr{Depth: 4, Channel: r.channel, Cookie: cookie})
	require.NoError(r.t, err)
	return c.(*faultcq.CQ)
}

// fire arms the CQ and adds a completion, which causes an event.
func (r *rig) fire() {
	require.NoError(r.t, r.cq.Arm(false))
	r.cq.Complete(verbs.WC{})
}

// wantEvents takes n events. The descriptor must be readable before each event and
// unreadable after the last.
func (r *rig) wantEvents(n int) {
	r.t.Helper()
	for range n {
		r.wantReadable(true)
		cookie, ok, err := r.channel.Next()
		require.NoError(r.t, err)
		require.True(r.t, ok)
		require.EqualValues(r.t, 7, cookie)
	}
	r.wantReadable(false)
	_, ok, err := r.channel.Next()
	require.NoError(r.t, err)
	require.False(r.t, ok)
}

func (r *rig) wantReadable(want bool) {
	r.t.Helper()
	got, err := r.dev.Readable()
	require.NoError(r.t, err)
	require.Equal(r.t, want, got)
}

func TestArmRaisesOneEvent(t *testing.T) {
	r := newRig(t, faultcq.Script{})
	r.cq.Complete(verbs.WC{})
	require.NoError(t, r.cq.Arm(false))
	r.wantEvents(0)
	r.cq.Complete(verbs.WC{})
	r.cq.Complete(verbs.WC{})
	require.True(t, r.cq.EventDue())
	r.wantEvents(1)
	require.False(t, r.cq.EventDue())
}

func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		script faultcq.Script
		events int
		counts faultcq.Counts
	}{
		"none":      {faultcq.Script{}, 1, faultcq.Counts{Raised: 1}},
		"drop":      {faultcq.Script{Drop: 100}, 0, faultcq.Counts{Raised: 1, Dropped: 1}},
		"duplicate": {faultcq.Script{Duplicate: 100}, 2, faultcq.Counts{Raised: 1, Duplicated: 1}},
		"delay":     {faultcq.Script{Delay: 100}, 0, faultcq.Counts{Raised: 1, Delayed: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.script)
			r.fire()
			r.wantEvents(c.events)
			require.Equal(t, c.counts, r.dev.Counts())
			require.Equal(t, c.script.Drop > 0, r.cq.EventLost())
			require.Equal(t, 1, r.cq.Waiting(), "faults apply to the event, not to the completion")
		})
	}
}

func TestDelayEnds(t *testing.T) {
	r := newRig(t, faultcq.Script{Delay: 100, MaxDelay: 5})
	r.fire()
	require.True(t, r.cq.EventDue())
	r.wantReadable(false)
	for range 5 {
		r.dev.Advance()
	}
	r.wantEvents(1)
}

func TestMerge(t *testing.T) {
	r := newRig(t, faultcq.Script{Merge: 100})
	r.fire()
	r.fire()
	r.wantEvents(1)
	require.Equal(t, faultcq.Counts{Raised: 2, Merged: 1}, r.dev.Counts())
}

func TestSpurious(t *testing.T) {
	r := newRig(t, faultcq.Script{Spurious: 100})
	r.dev.Advance()
	r.wantEvents(1)
}

func TestEagerArm(t *testing.T) {
	r := newRig(t, faultcq.Script{Eager: 100})
	require.NoError(t, r.cq.Arm(false))
	require.True(t, r.cq.Armed())
	r.cq.Complete(verbs.WC{})
	r.wantEvents(1)
	require.NoError(t, r.cq.Arm(false))
	r.wantEvents(1)
	require.False(t, r.cq.Armed())
}

func TestArmAfterTake(t *testing.T) {
	r := newRig(t, faultcq.Script{ArmAfterTake: true})
	r.fire()
	require.NoError(t, r.cq.Arm(false))
	require.False(t, r.cq.Armed())
	r.wantEvents(1)
	require.NoError(t, r.cq.Arm(false))
	require.True(t, r.cq.Armed())
}

func TestSameSeedSameRun(t *testing.T) {
	run := func(seed uint64) (counts []faultcq.Counts) {
		r := newRig(t, faultcq.Script{Seed: seed, Drop: 30, Duplicate: 30, Delay: 30, Spurious: 30, MaxDelay: 4})
		for range 50 {
			r.fire()
			_, err := r.cq.Poll(make([]verbs.WC, 4))
			require.NoError(t, err)
			r.dev.Advance()
			counts = append(counts, r.dev.Counts())
		}
		return counts
	}
	require.Equal(t, run(1), run(1))
	require.NotEqual(t, run(1), run(2))
}

func TestOverrunBreaksTheCQ(t *testing.T) {
	r := newRig(t, faultcq.Script{})
	for range 5 {
		r.cq.Complete(verbs.WC{})
	}
	_, err := r.cq.Poll(make([]verbs.WC, 8))
	require.ErrorIs(t, err, verbs.ErrOverrun)
}

func TestCloseNeedsAcknowledgedEventsAndNoQueuePairs(t *testing.T) {
	r := newRig(t, faultcq.Script{})
	require.ErrorIs(t, r.channel.Close(), verbs.ErrBusy)
	r.fire()
	r.wantEvents(1)
	r.cq.Use(1)
	require.ErrorIs(t, r.cq.Close(), verbs.ErrBusy)
	r.cq.AckEvents(1)
	require.ErrorIs(t, r.cq.Close(), verbs.ErrBusy)
	r.cq.Use(-1)
	require.Equal(t, 2, r.dev.Open())
	for range 2 {
		require.NoError(t, r.cq.Close())
		require.NoError(t, r.channel.Close())
	}
	require.Zero(t, r.dev.Open())

	_, err := r.cq.Poll(nil)
	require.ErrorIs(t, err, verbs.ErrClosed)
	require.ErrorIs(t, r.cq.Arm(false), verbs.ErrClosed)
	require.ErrorIs(t, r.cq.Resize(8), verbs.ErrClosed)
	_, _, err = r.channel.Next()
	require.ErrorIs(t, err, verbs.ErrClosed)
}

func TestEventsOfAClosedCQ(t *testing.T) {
	for _, keep := range []bool{false, true} {
		r := newRig(t, faultcq.Script{KeepStale: keep})
		r.fire()
		require.NoError(t, r.cq.Close())
		r.wantReadable(keep)
	}
}

func TestResizeKeepsQueuedCompletions(t *testing.T) {
	r := newRig(t, faultcq.Script{MaxCQE: 8})
	for id := range uint64(3) {
		r.cq.Complete(verbs.WC{ID: id})
	}
	require.Error(t, r.cq.Resize(2))
	require.Error(t, r.cq.Resize(9))
	require.NoError(t, r.cq.Resize(3))
	require.Equal(t, 3, r.cq.Depth())
	dst := make([]verbs.WC, 8)
	n, err := r.cq.Poll(dst)
	require.NoError(t, err)
	require.Equal(t, []verbs.WC{{ID: 0}, {ID: 1}, {ID: 2}}, dst[:n])

	fixed := newRig(t, faultcq.Script{NoResize: true})
	require.False(t, fixed.dev.Caps().ResizeCQ)
	require.ErrorIs(t, fixed.cq.Resize(5), verbs.ErrNotSupported)
}

func TestUnsupported(t *testing.T) {
	r := newRig(t, faultcq.Script{})
	_, err := r.dev.AllocPD()
	require.ErrorIs(t, err, verbs.ErrNotSupported)
	_, err = r.dev.Port(1)
	require.ErrorIs(t, err, verbs.ErrNotSupported)
	other := newRig(t, faultcq.Script{})
	_, err = r.dev.CreateCQ(&verbs.CQAttr{Depth: 1, Channel: other.channel})
	require.ErrorIs(t, err, verbs.ErrForeign)
}
