package reactor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMailboxOrderAndBounds(t *testing.T) {
	m := mailbox{limit: 2}
	var got []int
	put := func(n int, internal bool) error {
		_, err := m.put(func() { got = append(got, n) }, internal)
		return err
	}
	require.Zero(t, m.run())
	require.NoError(t, put(1, false))
	require.NoError(t, put(2, false))
	require.ErrorIs(t, put(3, false), ErrTooManyPosted)
	require.NoError(t, put(4, true), "the limit does not apply to internal functions")
	require.Equal(t, 3, m.run())
	require.Equal(t, []int{1, 2, 4}, got)
	require.EqualValues(t, 1, m.refused.Load())

	m.close()
	require.ErrorIs(t, put(5, true), ErrClosed)
	require.EqualValues(t, 1, m.refused.Load(), "internal functions are not counted")
	require.ErrorIs(t, put(6, false), ErrClosed)
	require.EqualValues(t, 2, m.refused.Load())
}

// TestMailboxPutWhileRunning checks that a function that is added during a turn runs in
// the next turn.
func TestMailboxPutWhileRunning(t *testing.T) {
	m := mailbox{limit: 10}
	n := 0
	var again func()
	again = func() {
		n++
		_, err := m.put(again, false)
		require.NoError(t, err)
	}
	again()
	require.Equal(t, 1, m.run())
	require.Equal(t, 1, m.run())
	require.Equal(t, 3, n)
}

func TestMailboxWakesSleepingLoopOnly(t *testing.T) {
	m := mailbox{limit: 10}
	wake, err := m.put(func() {}, false)
	require.NoError(t, err)
	require.False(t, wake)
	m.sleeping.Store(true)
	wake, err = m.put(func() {}, false)
	require.NoError(t, err)
	require.True(t, wake)
}

func TestMailboxDoesNotAllocate(t *testing.T) {
	m := mailbox{limit: 10}
	fn := func() {}
	round := func() {
		_, _ = m.put(fn, false)
		m.run()
	}
	round()
	round()
	require.Zero(t, testing.AllocsPerRun(100, round))
}
