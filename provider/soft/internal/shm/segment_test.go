//go:build linux

package shm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var testGeometry = Geometry{
	Slots: MinRingSlots, Bytes: MinRingBytes,
}

func TestForeignSegmentsAreRefused(t *testing.T) {
	seg, err := newSegment(testGeometry, newTestMapper())
	require.NoError(t, err)
	defer seg.Close()
	open := func() (*Segment, error) {
		fd, err := unix.FcntlInt(uintptr(seg.FD), unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
		return openSegment(fd, newTestMapper())
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

// An access to a file of huge pages raises SIGBUS if no huge page is free.
func TestSegmentOfHugePages(t *testing.T) {
	fd, err := unix.MemfdCreate("test", unix.MFD_HUGETLB|unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Skip("the kernel has no huge pages: ", err)
	}
	require.NoError(t, unix.Ftruncate(fd, 4<<20))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, segmentSeals)
	require.NoError(t, err)
	_, err = openSegment(fd, newTestMapper())
	require.ErrorIs(t, err, ErrSegment)
	require.ErrorContains(t, err, "ordinary pages")
}
