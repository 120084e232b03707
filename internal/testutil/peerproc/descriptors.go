//go:build linux

package peerproc

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
)

// OpenDescriptors returns the number of open descriptors of this process.
func OpenDescriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(open)
}

// LimitDescriptors limits the number of open descriptors of this process to n
// (RLIMIT_NOFILE). Only peer processes may call it, because the test process needs its
// descriptors.
func LimitDescriptors(t *testing.T, n int) {
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(n), Max: uint64(n)}))
}

// ExhaustDescriptors lowers the limit of open descriptors of this process, and opens
// descriptors until no more can be opened. It returns these descriptors. Only peer
// processes may call it.
func ExhaustDescriptors(t *testing.T) (taken []int) {
	LimitDescriptors(t, OpenDescriptors(t)+2)
	return TakeDescriptors(t)
}

// TakeDescriptors opens descriptors until the limit set with LimitDescriptors is reached.
// It returns these descriptors.
func TakeDescriptors(t *testing.T) (taken []int) {
	// A new descriptor gets the lowest free number, which must be below the limit. There
	// may be several free numbers below the limit, so the loop continues until a call
	// fails.
	for {
		fd, err := eventfd.New()
		if err != nil {
			require.ErrorIs(t, err, unix.EMFILE)
			return taken
		}
		taken = append(taken, fd)
	}
}
