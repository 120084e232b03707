//go:build linux

package shmpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// requireSleep calls Sleep without waiting. Sleep must return the results work and input.
func requireSleep(s *qptest.Sleeper, work, input bool) {
	s.T.Helper()
	gotWork, gotInput, err := s.Ch.Sleep(0)
	require.NoError(s.T, err)
	require.Equal(s.T, []bool{work, input}, []bool{gotWork, gotInput}, "work, input")
}

// armEmpty arms the CQ, which must be empty.
func armEmpty(s *qptest.Sleeper) {
	s.T.Helper()
	require.NoError(s.T, s.CQ.Arm(false))
	requireEmpty(s)
}

func requireEmpty(s *qptest.Sleeper) {
	s.T.Helper()
	n, err := s.CQ.Poll(s.WC)
	require.NoError(s.T, err)
	require.Zero(s.T, n)
}

var wakeMessage = verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("wake")}

// TestSleepInChannel checks that Sleep reports messages and the joined descriptor, and
// that it leaves no event behind.
func TestSleepInChannel(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	input, err := fdevent.NewEvent()
	require.NoError(t, err)
	defer func() { require.NoError(t, input.Close()) }()
	a := qptest.NewEnd(t, d, 0, verbs.ProgressManual)
	b := qptest.NewSleeper(t, d, 1, verbs.ProgressManual)
	a.Connect(b.End, nil)
	b.Connect(a, nil)
	require.NoError(t, b.Ch.Join(input.FD()))
	requireEmpty(b)
	for round := range 3 {
		b.Recv(uint64(round), 0, 100)
		armEmpty(b)
		requireSleep(b, false, false)
		a.Post(wakeMessage)
		requireSleep(b, true, false)
		n, err := b.CQ.Poll(b.WC)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.False(t, cmside.Readable(t, b.Ch.FD()), "the event is kept in memory only")
		requireSleep(b, true, false) // Sleep does not wait while an event is queued.
		b.CQ.Disarm()
		requireEmpty(b)
		requireSleep(b, false, false)
	}
	input.Signal()
	requireSleep(b, false, true)
	b.Recv(3, 0, 100)
	armEmpty(b)
	a.Post(wakeMessage)
	requireSleep(b, true, true)
	input.Drain()
	n, err := b.CQ.Poll(b.WC)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	b.CQ.Disarm()
	requireEmpty(b)
	requireSleep(b, false, false)
}
