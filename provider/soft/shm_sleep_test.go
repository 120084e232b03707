//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// requireSleep calls Sleep without waiting. Sleep must return the results work and input.
func requireSleep(s *sleeper, work, input bool) {
	s.t.Helper()
	gotWork, gotInput, err := s.ch.(verbs.Sleeper).Sleep(0)
	require.NoError(s.t, err)
	require.Equal(s.t, []bool{work, input}, []bool{gotWork, gotInput}, "work, input")
}

// armEmpty arms the CQ, which must be empty.
func armEmpty(s *sleeper) {
	s.t.Helper()
	require.NoError(s.t, s.cq.Arm(false))
	requireEmpty(s)
}

func requireEmpty(s *sleeper) {
	s.t.Helper()
	n, err := s.cq.Poll(s.wc)
	require.NoError(s.t, err)
	require.Zero(s.t, n)
}

var wakeMessage = verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("wake")}

// TestSleepInChannel checks that Sleep reports messages and the joined descriptor, and
// that it leaves no event behind.
func TestSleepInChannel(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	input, err := fdevent.NewEvent()
	require.NoError(t, err)
	defer func() { require.NoError(t, input.Close()) }()
	a := newEnd(t, d, 0, verbs.ProgressManual)
	b := newSleeper(t, d, 1, verbs.ProgressManual)
	a.connect(b.end, nil)
	b.connect(a, nil)
	require.NoError(t, b.ch.(verbs.Sleeper).Join(input.FD()))
	requireEmpty(b)
	for round := range 3 {
		b.recv(uint64(round), 0, 100)
		armEmpty(b)
		requireSleep(b, false, false)
		a.post(wakeMessage)
		requireSleep(b, true, false)
		n, err := b.cq.Poll(b.wc)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.False(t, cmside.Readable(t, b.ch.FD()), "the event is kept in memory only")
		requireSleep(b, true, false) // Sleep does not wait while an event is queued.
		b.cq.(verbs.Disarmer).Disarm()
		requireEmpty(b)
		requireSleep(b, false, false)
	}
	input.Signal()
	requireSleep(b, false, true)
	b.recv(3, 0, 100)
	armEmpty(b)
	a.post(wakeMessage)
	requireSleep(b, true, true)
	input.Drain()
	n, err := b.cq.Poll(b.wc)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	b.cq.(verbs.Disarmer).Disarm()
	requireEmpty(b)
	requireSleep(b, false, false)
}
