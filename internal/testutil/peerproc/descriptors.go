//go:build linux

package peerproc

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
)

// OpenDescriptors returns the number of open descriptors of this process.
func OpenDescriptors(t *testing.T) int {
	t.Helper()
	// The first pipe makes the Go runtime open the descriptors of its network poller.
	r, w, err := os.Pipe()
	require.NoError(t, err)
	_, _ = r.Close(), w.Close()
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(open)
}

// LimitDescriptors limits this process to n open descriptors (RLIMIT_NOFILE). Only peer
// processes may call it.
func LimitDescriptors(t *testing.T, n int) {
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(n), Max: uint64(n)}))
}

// ExhaustDescriptors opens descriptors until no more can be opened, and returns them. It
// lowers the limit first. Only peer processes may call it.
func ExhaustDescriptors(t *testing.T) (taken []int) {
	LimitDescriptors(t, OpenDescriptors(t)+2)
	return TakeDescriptors(t)
}

// TakeDescriptors opens descriptors until the limit of LimitDescriptors is reached, and
// returns them.
func TakeDescriptors(t *testing.T) (taken []int) {
	// Descriptors are opened until an error says that none is free.
	for {
		event, err := fdevent.NewEvent()
		if err != nil {
			require.ErrorIs(t, err, unix.EMFILE)
			return taken
		}
		taken = append(taken, event.FD())
	}
}
