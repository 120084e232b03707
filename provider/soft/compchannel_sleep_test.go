//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func newEvent(t *testing.T) *fdevent.Event {
	event, err := fdevent.NewEvent()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, event.Close()) })
	return event
}

// requireSleep calls Sleep without waiting. Sleep must return the results work and input.
func (s *sleeper) requireSleep(work, input bool) {
	s.t.Helper()
	gotWork, gotInput, err := s.ch.(verbs.Sleeper).Sleep(0)
	require.NoError(s.t, err)
	require.Equal(s.t, []bool{work, input}, []bool{gotWork, gotInput}, "work, input")
}

// arm arms the CQ. The CQ must be empty.
func (s *sleeper) arm() {
	s.t.Helper()
	require.NoError(s.t, s.cq.Arm(false))
	s.requireEmpty()
}

func (s *sleeper) requireEmpty() {
	s.t.Helper()
	n, err := s.cq.Poll(s.wc)
	require.NoError(s.t, err)
	require.Zero(s.t, n)
}

var wakeMessage = verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("wake")}

// TestSleepInChannel checks that Sleep reports messages and the joined descriptor, and
// that it leaves no event behind.
func TestSleepInChannel(t *testing.T) {
	d, input := openDevice(t, &Config{Vectors: 2}), newEvent(t)
	a := newEnd(t, d, 0, verbs.ProgressManual)
	b := newSleeper(t, d, 1, verbs.ProgressManual)
	a.connect(b.end, nil)
	b.connect(a, nil)
	require.NoError(t, b.ch.(verbs.Sleeper).Join(input.FD()))
	b.requireEmpty()
	for round := range 3 {
		b.recv(uint64(round), 0, 100)
		b.arm()
		b.requireSleep(false, false)
		a.post(wakeMessage)
		b.requireSleep(true, false)
		n, err := b.cq.Poll(b.wc)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.False(t, cmside.Readable(t, b.ch.(*compChannel).shard.event.FD()), "the event is kept in memory only")
		b.requireSleep(true, false) // Sleep does not wait while an event is queued.
		b.cq.(verbs.Disarmer).Disarm()
		b.requireEmpty()
		b.requireSleep(false, false)
	}
	input.Signal()
	b.requireSleep(false, true)
	b.recv(3, 0, 100)
	b.arm()
	a.post(wakeMessage)
	b.requireSleep(true, true)
	input.Drain()
	n, err := b.cq.Poll(b.wc)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	b.cq.(verbs.Disarmer).Disarm()
	b.requireEmpty()
	b.requireSleep(false, false)
}

// TestSleepErrors checks the states in which Join and Sleep fail.
func TestSleepErrors(t *testing.T) {
	d, event := openDevice(t, nil), newEvent(t)
	for progress, want := range map[verbs.Progress]error{verbs.ProgressAuto: verbs.ErrNotSupported, verbs.ProgressManual: nil} {
		ch, err := d.CreateCompChannel(&verbs.CompChannelAttr{Progress: progress})
		require.NoError(t, err)
		s := ch.(verbs.Sleeper)
		_, _, err = s.Sleep(0)
		require.ErrorIs(t, err, verbs.ErrState)
		require.ErrorIs(t, s.Join(event.FD()), want)
		if want == nil {
			require.ErrorIs(t, s.Join(event.FD()), verbs.ErrState)
		}
		require.NoError(t, ch.Close())
		_, _, err = s.Sleep(0)
		require.ErrorIs(t, err, verbs.ErrClosed)
	}
}

// TestChannelAfterJoin checks that the next channel of the shard has a descriptor that
// becomes readable.
func TestChannelAfterJoin(t *testing.T) {
	d, event := openDevice(t, nil), newEvent(t)
	ch, err := d.createCompChannel(&verbs.CompChannelAttr{Progress: verbs.ProgressManual})
	require.NoError(t, err)
	require.NoError(t, ch.Join(event.FD()))
	ch.shard.signal()
	require.False(t, cmside.Readable(t, ch.FD()))
	require.NoError(t, ch.Close())

	next, err := d.createCompChannel(&verbs.CompChannelAttr{Progress: verbs.ProgressManual})
	require.NoError(t, err)
	require.Same(t, ch.shard, next.shard)
	require.True(t, cmside.Readable(t, next.FD()))
	event.Signal()
	_, _, err = next.Next()
	require.NoError(t, err)
	require.False(t, cmside.Readable(t, next.FD()), "the descriptor was removed with the first channel")
	require.NoError(t, next.Close())
}
