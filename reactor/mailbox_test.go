package reactor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

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

// TestMailboxPutWait checks that waiting callers get their turn in the order of the calls, that
// one whose context ends does not, and that close() ends the wait of all.
func TestMailboxPutWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mailbox{limit: 2}
		var ran []int
		results := map[int]error{}
		wait := func(ctx context.Context, n int) {
			go func() {
				_, err := m.putWait(ctx, func() { ran = append(ran, n) })
				m.mu.Lock()
				defer m.mu.Unlock()
				results[n] = err
			}()
			synctest.Wait()
		}
		canceled, cancel := context.WithCancelCause(t.Context())
		for n := range 9 {
			if n == 3 {
				wait(canceled, n)
			} else {
				wait(t.Context(), n)
			}
		}
		want := map[int]error{0: nil, 1: nil}
		check := func(err error, numbers ...int) {
			synctest.Wait()
			for _, n := range numbers {
				want[n] = err
			}
			require.Equal(t, want, results)
		}
		check(nil)
		stop := errors.New("stop")
		cancel(stop)
		check(stop, 3)
		require.Equal(t, 2, m.run())
		check(nil, 2, 4)
		_, err := m.put(func() {}, false)
		require.ErrorIs(t, err, ErrTooManyPosted, "waiting functions come first")
		require.Equal(t, 2, m.run())
		check(nil, 5, 6)
		require.True(t, m.waiting())
		m.close()
		check(errLoopEnded, 7, 8)
		require.Equal(t, 2, m.run())
		require.Zero(t, m.run())
		require.Equal(t, []int{0, 1, 2, 4, 5, 6}, ran)
		require.EqualValues(t, 4, m.refused.Load())
		_, err = m.putWait(t.Context(), func() {})
		require.ErrorIs(t, err, errLoopEnded)
	})
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
