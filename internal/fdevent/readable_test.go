//go:build linux

package fdevent_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
)

// A wait should end long before this time.
const testTimeout = 10 * time.Second

// TestSignalsDoNotProlongTheWait checks that Readable ends after its timeout even if
// signals interrupt it again and again.
func TestSignalsDoNotProlongTheWait(t *testing.T) {
	const timeout = 20 * time.Millisecond
	event := newEvent(t)
	tid, done := make(chan int), make(chan struct{})
	var took time.Duration
	var err error
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		tid <- unix.Gettid()
		start := time.Now()
		_, err = fdevent.Readable(event.FD(), timeout)
		took = time.Since(start)
	}()
	signalUntil(t, <-tid, done)
	require.NoError(t, err)
	require.GreaterOrEqual(t, took, timeout)
}

// signalUntil signals the thread tid every millisecond until done is closed.
func signalUntil(t *testing.T, tid int, done <-chan struct{}) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(testTimeout)
	for {
		select {
		case <-done:
			return
		case <-limit:
			require.FailNow(t, "the wait never ended")
		case <-tick.C:
			// The thread may have ended meanwhile. Then the error is ESRCH.
			if err := unix.Tgkill(unix.Getpid(), tid, unix.SIGURG); err != unix.ESRCH {
				require.NoError(t, err)
			}
		}
	}
}
