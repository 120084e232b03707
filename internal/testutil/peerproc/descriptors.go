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

// LimitDescriptors sets the limit of open descriptors of this process. Only peer
// processes call it, because the test process needs its descriptors.
func LimitDescriptors(t *testing.T, n int) {
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(n), Max: uint64(n)}))
}

// ExhaustDescriptors lowers the limit of open descriptors, and opens descriptors until it
// reaches the limit. It returns the descriptors that it has opened. Only peer processes
// call it.
func ExhaustDescriptors(t *testing.T) (taken []int) {
	LimitDescriptors(t, OpenDescriptors(t)+2)
	return TakeDescriptors(t)
}

// TakeDescriptors opens descriptors up to the limit that LimitDescriptors has set.
func TakeDescriptors(t *testing.T) (taken []int) {
	// Several calls may succeed: the limit is compared with the number of a descriptor,
	// and numbers below the highest one in use may be free.
	for {
		fd, err := eventfd.New()
		if err != nil {
			require.ErrorIs(t, err, unix.EMFILE)
			return taken
		}
		taken = append(taken, fd)
	}
}
