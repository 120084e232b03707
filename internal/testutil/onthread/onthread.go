//go:build linux

// Package onthread runs a function on a thread of its own, which a test can signal. Only
// tests import it.
package onthread

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// limit ends a test that hangs.
const limit = 30 * time.Second

// Run runs f on a thread of its own, and returns the ID of the thread. The channel is
// closed when f has returned.
func Run(f func()) (tid int, done <-chan struct{}) {
	ids, end := make(chan int), make(chan struct{})
	go func() {
		defer close(end)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		ids <- unix.Gettid()
		f()
	}()
	return <-ids, end
}

// Interrupt sends SIGURG to a thread about every millisecond until done is closed.
func Interrupt(t *testing.T, tid int, done <-chan struct{}) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	hangs := time.After(limit)
	for {
		select {
		case <-done:
			return
		case <-hangs:
			require.FailNow(t, "the wait never ended")
		case <-tick.C:
			// The thread may have ended meanwhile. Then the error is ESRCH.
			if err := unix.Tgkill(unix.Getpid(), tid, unix.SIGURG); err != unix.ESRCH {
				require.NoError(t, err)
			}
		}
	}
}
