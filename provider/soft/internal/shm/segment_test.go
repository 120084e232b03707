//go:build linux

package shm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// testGeometry is the geometry of the segments in tests.
var testGeometry = Geometry{
	Slots: MinRingSlots, Bytes: MinRingBytes,
}

func TestForeignSegmentsAreRefused(t *testing.T) {
	seg, err := newSegment(testGeometry, newTestLimit())
	require.NoError(t, err)
	defer seg.Close()
	open := func() (*Segment, error) {
		fd, err := unix.FcntlInt(uintptr(seg.FD), unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
		return openSegment(fd, newTestLimit())
	}
	for at, name := range map[int]string{0: "magic", 8: "version", 16: "slots", 24: "bytes"} {
		old := seg.Mem[at]
		seg.Mem[at]++
		_, err := open()
		require.ErrorIs(t, err, ErrSegment, name)
		seg.Mem[at] = old
	}
	good, err := open()
	require.NoError(t, err)
	good.Close()
}
