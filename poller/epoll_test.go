//go:build linux

package poller_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/testutil/onthread"
	"github.com/rdmaloop/rdmaloop/poller"
)

// eachResolution runs a test twice: with epoll_pwait2 and with epoll_pwait.
func eachResolution(t *testing.T, test func(t *testing.T, p *poller.Poller)) {
	t.Run("best", func(t *testing.T) { test(t, newPoller(t, 8)) })
	t.Run("milliseconds", func(t *testing.T) {
		p := newPoller(t, 8)
		p.Coarsen()
		test(t, p)
	})
}

func TestTimeoutIsNotCutShort(t *testing.T) {
	eachResolution(t, func(t *testing.T, p *poller.Poller) {
		for _, timeout := range []time.Duration{1, 999, 50 * time.Microsecond, 1100 * time.Microsecond} {
			start := time.Now()
			n, err := p.Wait(timeout)
			require.NoError(t, err)
			require.Zero(t, n)
			require.False(t, p.Woken())
			require.GreaterOrEqual(t, time.Since(start), timeout)
		}
	})
}

func TestLongTimeouts(t *testing.T) {
	eachResolution(t, func(t *testing.T, p *poller.Poller) {
		add(t, p, newReady(t), poller.Readable, 1)
		for _, timeout := range []time.Duration{math.MinInt64, noLimit, time.Hour, math.MaxInt64} {
			require.Len(t, wait(t, p, timeout), 1, "%d", timeout)
		}
	})
}

// TestSignalsDoNotEndTheWait checks that a wait continues after SIGURG.
func TestSignalsDoNotEndTheWait(t *testing.T) {
	eachResolution(t, func(t *testing.T, p *poller.Poller) {
		var n int
		var err error
		tid, done := onthread.Run(func() { n, err = p.Wait(noLimit) })
		for range 10 {
			awaitEpoll(t, tid)
			require.NoError(t, unix.Tgkill(unix.Getpid(), tid, unix.SIGURG))
		}
		awaitEpoll(t, tid)
		p.Wake()
		awaitDone(t, done)
		require.NoError(t, err)
		require.Zero(t, n)
		require.True(t, p.Woken())
	})
}

// TestSignalsDoNotProlongTheWait checks that signals do not restart the timeout.
func TestSignalsDoNotProlongTheWait(t *testing.T) {
	eachResolution(t, func(t *testing.T, p *poller.Poller) {
		const timeout = 20 * time.Millisecond
		var took time.Duration
		var err error
		tid, done := onthread.Run(func() {
			start := time.Now()
			_, err = p.Wait(timeout)
			took = time.Since(start)
		})
		onthread.Interrupt(t, tid, done)
		require.NoError(t, err)
		require.GreaterOrEqual(t, took, timeout)
	})
}
