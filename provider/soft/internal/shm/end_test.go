//go:build linux

package shm

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func openDescriptors(t *testing.T) int {
	t.Helper()
	r, w, err := os.Pipe() // The first pipe of a process makes the Go runtime open descriptors.
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(fds)
}

// Both ends of a pair map the same memory and have connected doorbells.
func TestEndPair(t *testing.T) {
	before, maps := openDescriptors(t), newTestLimit()
	a, b, err := NewEnds(testGeometry, maps, 0, nil).UsePair(0, 1)
	require.NoError(t, err)
	require.Equal(t, 1, a.Side)
	require.Equal(t, 0, b.Side)
	a.Segment.Mem[RingsOffset] = 7
	require.EqualValues(t, 7, b.Segment.Mem[RingsOffset])
	RingDoorbell(a.Doorbell)
	var byte1 [1]byte
	n, err := unix.Read(b.Doorbell, byte1[:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	a.Release()
	b.Release()
	require.Zero(t, maps.mapped)
	require.Equal(t, before, openDescriptors(t))
}

// UsePair frees everything if the second end can not be mapped.
func TestEndPairOutOfMappings(t *testing.T) {
	before, maps := openDescriptors(t), newTestLimit()
	maps.maxSegments, maps.nextCount = 1, 1<<20
	_, _, err := NewEnds(testGeometry, maps, 0, nil).UsePair(0, 1)
	require.ErrorIs(t, err, verbs.ErrNoResources)
	// The mappings may still be counted in another goroutine, which has a descriptor open
	// meanwhile.
	maps.settle()
	require.Zero(t, maps.mapped)
	require.Equal(t, before, openDescriptors(t))
}
