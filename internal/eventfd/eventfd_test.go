//go:build linux

package eventfd_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
)

func readable(t *testing.T, fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	require.NoError(t, err)
	return n == 1
}

// TestSignalAndDrain checks that the descriptor is readable from Signal to Drain. Neither
// may allocate memory.
func TestSignalAndDrain(t *testing.T) {
	fd, err := eventfd.New()
	require.NoError(t, err)
	defer unix.Close(fd)
	require.False(t, readable(t, fd))
	eventfd.Drain(fd) // Drain must not block.
	for range 2 {
		eventfd.Signal(fd)
		eventfd.Signal(fd)
		require.True(t, readable(t, fd))
		eventfd.Drain(fd)
		require.False(t, readable(t, fd))
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		eventfd.Signal(fd)
		eventfd.Drain(fd)
	}))
}
