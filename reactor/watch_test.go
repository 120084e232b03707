package reactor_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/reactor"
)

func TestWatch(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	loop := newLoop(t, &hooks{}, &reactor.Config{Idle: reactor.IdleEvent, Limits: reactor.Limits{SafetyTimeout: testTimeout}})

	var got []byte
	buf := make([]byte, 2)
	err = loop.Watch(int(r.Fd()), poller.Readable, func(ready poller.Readiness) {
		require.NotZero(t, ready&poller.Readable)
		n, err := r.Read(buf)
		require.NoError(t, err)
		got = append(got, buf[:n]...)
	})
	require.NoError(t, err)
	_, err = w.WriteString("level")
	require.NoError(t, err)
	// The function reads two bytes. It is called again while the descriptor is readable.
	for len(got) < 5 {
		_, err := loop.RunOnce(-1)
		require.NoError(t, err)
	}
	require.Equal(t, "level", string(got))
	replaced := 0
	require.NoError(t, loop.Watch(int(r.Fd()), poller.Readable, func(poller.Readiness) { replaced++ }))
	_, err = w.WriteString("?")
	require.NoError(t, err)
	drive(t, func() bool { return replaced > 0 }, loop)
	require.Equal(t, "level", string(got))
	require.NoError(t, loop.Watch(int(r.Fd()), 0, func(poller.Readiness) { replaced = -1 }))
	require.NoError(t, loop.Unwatch(int(r.Fd())))
	require.NoError(t, loop.Unwatch(int(r.Fd())))
	require.Error(t, loop.Watch(-1, poller.Readable, func(poller.Readiness) {}))
	_, err = w.WriteString("!")
	require.NoError(t, err)
	n, err := loop.RunOnce(0)
	require.NoError(t, err)
	require.Zero(t, n)
}

// TestUnwatchInCallback checks that a callback can end the watch of another descriptor that
// is also readable. The other callback does not run.
func TestUnwatchInCallback(t *testing.T) {
	loop := newLoop(t, &hooks{}, nil)
	calls := 0
	var fds [2]int
	for i := range fds {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		defer w.Close()
		_, err = w.WriteString("x")
		require.NoError(t, err)
		fds[i] = int(r.Fd())
		require.NoError(t, loop.Watch(fds[i], poller.Readable, func(poller.Readiness) {
			calls++
			require.NoError(t, loop.Unwatch(fds[1-i]))
		}))
	}
	drive(t, func() bool { return calls > 0 }, loop)
	require.Equal(t, 1, calls)
}
