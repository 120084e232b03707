//go:build linux

package shm

import (
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func newTestRegion(t *testing.T, size int, access verbs.Access) *Region {
	r, err := NewRegion(size, access, NewRegionLimit(10))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	r.Publish(&RegionInfo{Key: 7, Domain: 3, Access: access, Base: 1 << 20, Size: uint64(size)})
	return r
}

// open maps the region through a copy of its descriptor, as another process does.
func (r *Region) open(t *testing.T, key uint32) (*RemoteRegion, error) {
	fd, err := unix.FcntlInt(uintptr(r.fd), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	return OpenRegion(fd, key, newTestMapper())
}

func TestRegionOfAPeer(t *testing.T) {
	for _, size := range []int{1, 4096, 4097} {
		owner := newTestRegion(t, size, verbs.AccessAll)
		peer, err := owner.open(t, 7)
		require.NoError(t, err)
		peer.At(1<<20, 1, verbs.AccessRemoteWrite)[0] = 5
		require.EqualValues(t, 5, owner.Bytes()[0])
		require.Len(t, owner.Bytes(), size)

		require.NotNil(t, peer.At(1<<20+uint64(size)-1, 1, verbs.AccessRemoteRead))
		require.Nil(t, peer.At(1<<20+uint64(size)-1, 2, verbs.AccessRemoteRead))
		require.Nil(t, peer.At(1<<20-1, 1, verbs.AccessRemoteRead))
		require.Nil(t, peer.At(math.MaxUint64, 1, verbs.AccessRemoteRead))
		require.True(t, peer.Valid())
		owner.Revoke()
		require.False(t, peer.Valid())
		peer.Close()
	}
}

// No peer can write to a region without remote write access, or change the size of a
// region.
func TestRegionSeals(t *testing.T) {
	owner := newTestRegion(t, 100, verbs.AccessRemoteRead|verbs.AccessLocalWrite)
	peer, err := owner.open(t, 7)
	require.NoError(t, err)
	require.Nil(t, peer.At(1<<20, 1, verbs.AccessRemoteWrite))
	peer.Close()
	_, err = unix.Mmap(owner.fd, 0, 4096, unix.PROT_WRITE, unix.MAP_SHARED)
	require.ErrorIs(t, err, unix.EPERM)
	_, err = unix.Pwrite(owner.fd, []byte{1}, 0)
	require.ErrorIs(t, err, unix.EPERM)
	owner.Bytes()[0] = 1

	for _, access := range []verbs.Access{verbs.AccessAll, verbs.AccessRemoteRead} {
		r := newTestRegion(t, 100, access)
		require.ErrorIs(t, unix.Ftruncate(r.fd, 0), unix.EPERM)
		require.ErrorIs(t, unix.Ftruncate(r.fd, 1<<20), unix.EPERM)
	}
}

// The owner of a region and a peer that may write can remove pages. The other side then
// reads zeros, and gets no SIGBUS. A peer without remote write access can not.
func TestRegionHoles(t *testing.T) {
	page := os.Getpagesize()
	punch := func(r *Region) error {
		return unix.Fallocate(r.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, int64(page))
	}
	owner := newTestRegion(t, 2*page, verbs.AccessAll)
	peer, err := owner.open(t, 7)
	require.NoError(t, err)
	defer peer.Close()
	seen := peer.At(1<<20, uint32(2*page), verbs.AccessRemoteRead)
	owner.Bytes()[0], owner.Bytes()[page] = 1, 2
	require.NoError(t, punch(owner))
	require.EqualValues(t, []byte{0, 2}, []byte{seen[0], seen[page]})
	owner.Bytes()[0] = 3
	require.EqualValues(t, 3, seen[0])
	// The hole may also cover the trailer.
	require.NoError(t, unix.Fallocate(owner.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, int64(3*page)))
	require.Zero(t, seen[page])
	require.False(t, peer.Valid())

	readable := newTestRegion(t, page, verbs.AccessRemoteRead|verbs.AccessLocalWrite)
	readable.Bytes()[0] = 1
	require.ErrorIs(t, punch(readable), unix.EPERM)
	require.EqualValues(t, 1, readable.Bytes()[0])
}

func TestRegionLimit(t *testing.T) {
	limit := NewRegionLimit(1)
	r, err := NewRegion(1, verbs.AccessAll, limit)
	require.NoError(t, err)
	_, err = NewRegion(1, verbs.AccessAll, limit)
	require.ErrorIs(t, err, verbs.ErrNoResources)
	require.NoError(t, r.Close())
	r, err = NewRegion(1, verbs.AccessAll, limit)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	_, err = NewRegion(math.MaxInt, verbs.AccessAll, limit)
	require.ErrorIs(t, err, unix.ENOMEM)
	require.Zero(t, limit.open.Load())
}

// OpenRegion refuses a trailer that a hostile peer has written.
func TestInvalidRegions(t *testing.T) {
	page := uint64(os.Getpagesize())
	owner := newTestRegion(t, 100, verbs.AccessAll)
	for name, info := range map[string]RegionInfo{
		"other key":      {Key: 8, Base: page, Size: 100},
		"no data":        {Key: 7, Base: page},
		"long data":      {Key: 7, Base: page, Size: page + 1},
		"huge data":      {Key: 7, Base: page, Size: math.MaxUint64},
		"unaligned base": {Key: 7, Base: page + 8, Size: 100},
	} {
		owner.Publish(&info)
		_, err := owner.open(t, 7)
		require.ErrorIs(t, err, errRegion, name)
	}
	owner.Publish(&RegionInfo{Key: 7, Base: -page, Size: page})
	peer, err := owner.open(t, 7)
	require.NoError(t, err)
	require.NotNil(t, peer.At(math.MaxUint64, 1, 0))
	require.Nil(t, peer.At(math.MaxUint64, 2, 0))
	peer.Close()
	owner.trailer.magic++
	_, err = owner.open(t, 7)
	require.ErrorIs(t, err, errRegion)
}

// OpenRegion refuses descriptors that are not regions.
func TestForeignRegionDescriptors(t *testing.T) {
	file, err := os.Open("/proc/self/maps")
	require.NoError(t, err)
	defer file.Close()
	memfd := func(flags, seals int, size int64) int {
		fd, err := unix.MemfdCreate("test", flags|unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			return -1 // This fails on a system without huge pages.
		}
		require.NoError(t, unix.Ftruncate(fd, size))
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		require.NoError(t, err)
		return fd
	}
	own, err := unix.Dup(int(file.Fd()))
	require.NoError(t, err)
	for name, fd := range map[string]int{
		"file": own, "no descriptor": -1,
		"not sealed": memfd(0, unix.F_SEAL_GROW, 8192), "empty": memfd(0, segmentSeals, 0),
		"no trailer": memfd(0, segmentSeals, 8192), "one page": memfd(0, segmentSeals, 4096),
		"huge pages": memfd(unix.MFD_HUGETLB, segmentSeals, 4<<20),
	} {
		_, err := OpenRegion(fd, 7, newTestMapper())
		require.Error(t, err, name)
	}
}

func TestPassRegion(t *testing.T) {
	owner := newTestRegion(t, 100, verbs.AccessAll)
	mine, theirs, err := newDoorbells()
	require.NoError(t, err)
	defer closeAll([]int{mine, theirs})
	_, ok := ReceiveDescriptor(theirs)
	require.False(t, ok, "nothing was sent")

	RingDoorbell(mine)
	RingDoorbell(mine)
	require.True(t, owner.PassTo(mine))
	fd, ok := ReceiveDescriptor(theirs)
	require.True(t, ok, "the bytes before the descriptor are dropped")
	peer, err := OpenRegion(fd, 7, newTestMapper())
	require.NoError(t, err)
	peer.Close()

	// A message with too many descriptors is dropped.
	require.NoError(t, unix.Sendmsg(mine, []byte{1}, unix.UnixRights(owner.fd, owner.fd, owner.fd), nil, 0))
	_, ok = ReceiveDescriptor(theirs)
	require.False(t, ok)

	for owner.PassTo(mine) {
	}
	owner.Revoke()
	require.False(t, owner.PassTo(mine))
}
