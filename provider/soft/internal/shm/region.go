//go:build linux

package shm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Region is the memory of a memory region, which other processes can map. The memory
// is a memfd. The last page of the memfd is the trailer, which describes the region. A
// memfd is never used for a second region. So a process that still maps a closed region
// can not reach the memory of another region.
//
// If peers may only read the region, the memfd is sealed so that only its owner can
// write to it.
type Region struct {
	fd      int
	mem     []byte // mapped memory: the data and the trailer of the region
	trailer *regionTrailer
	size    int // size of the data in bytes
	limit   *RegionLimit
}

// RegionInfo describes a memory region to other processes.
type RegionInfo struct {
	Key    uint32
	Domain uint32       // number of the protection domain
	Access verbs.Access // access rights
	Base   uint64       // virtual address of the first byte in the process of the owner
	Size   uint64       // size in bytes
}

// remoteWrites are the access rights that let a peer write.
const remoteWrites = verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic

// regionMagic marks a trailer: the bytes "rdmaregn" as a little-endian number.
const regionMagic = 0x6e676572616d6472

// A RegionLimit limits the number of Regions of a device, because each Region needs a
// descriptor. Any goroutine may call its methods.
type RegionLimit struct {
	Sim  simhost.Host // simulated host; nil on the real host
	most int64
	open atomic.Int64
}

// NewRegionLimit returns a RegionLimit. The parameter most is the largest number of
// Regions.
func NewRegionLimit(most int) *RegionLimit { return &RegionLimit{most: int64(most)} }

func (l *RegionLimit) acquire() bool {
	if l.open.Add(1) > l.most {
		l.open.Add(-1)
		return false
	}
	return true
}

func (l *RegionLimit) release() { l.open.Add(-1) }

// errRegionLimit means that the device has the largest number of Regions already.
var errRegionLimit = fmt.Errorf("%w: too many shared regions", verbs.ErrNoResources)

// NewRegion makes a Region with zeroed memory of the given size in bytes. The memory
// begins at a page boundary. Peers can not get the memory before Publish.
func NewRegion(size int, access verbs.Access, limit *RegionLimit) (*Region, error) {
	if size > math.MaxInt-2*os.Getpagesize() {
		return nil, unix.ENOMEM
	}
	if !limit.acquire() {
		return nil, errRegionLimit
	}
	fd, err := unix.MemfdCreate("rdmaloop-region", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		limit.release()
		return nil, err
	}
	r := &Region{fd: fd, size: size, limit: limit}
	if err := r.create(access); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Region) create(access verbs.Access) error {
	data := dataPages(uint64(r.size))
	length := data + os.Getpagesize()
	if err := unix.Ftruncate(r.fd, int64(length)); err != nil {
		return err
	}
	mem, err := simhost.Map(r.limit.Sim, func() ([]byte, error) {
		return unix.Mmap(r.fd, 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	})
	if err != nil {
		return err
	}
	r.mem, r.trailer = mem, trailerAt(mem[data:])
	seals := segmentSeals
	if access&remoteWrites == 0 {
		seals |= unix.F_SEAL_FUTURE_WRITE
	}
	_, err = unix.FcntlInt(uintptr(r.fd), unix.F_ADD_SEALS, seals)
	return err
}

// dataPages returns the size of a memory region in bytes, rounded up to whole pages.
func dataPages(size uint64) int {
	page := uint64(os.Getpagesize())
	return int((size + page - 1) &^ (page - 1))
}

// Bytes returns the data.
func (r *Region) Bytes() []byte { return r.mem[:r.size:r.size] }

// MappedBytes returns the size of the mapping: the data and the trailer, in whole pages.
func (r *Region) MappedBytes() int { return len(r.mem) }

// Publish writes the trailer. Afterwards peers may get the memory.
func (r *Region) Publish(info *RegionInfo) {
	t := r.trailer
	t.magic, t.base, t.size = regionMagic, info.Base, info.Size
	t.key, t.domain, t.right = info.Key, info.Domain, uint32(info.Access)
	t.valid.Store(1)
}

// Revoke tells all processes that map the memory to stop using it, because the region is
// not registered any more.
func (r *Region) Revoke() { r.trailer.valid.Store(0) }

// PassTo sends the descriptor of the memory to the process at the other side of a
// doorbell. It returns false if the region is not published or was revoked, or if
// sending is not possible now.
func (r *Region) PassTo(doorbell int) bool {
	return r.trailer.valid.Load() == 1 && passDescriptor(doorbell, r.fd) == nil
}

// Close unmaps the memory and closes the descriptor. Other processes may still map it.
func (r *Region) Close() (err error) {
	if r.mem != nil {
		simhost.Unmapped(r.limit.Sim, r.mem)
		err = unix.Munmap(r.mem)
		r.mem = nil
	}
	_ = unix.Close(r.fd)
	r.limit.release()
	return err
}

// A RemoteRegion is a memory region of another process that is mapped into this process.
// The owner may be hostile.
type RemoteRegion struct {
	RegionInfo
	mem     []byte // mapped memory: the data and the trailer of the region
	trailer *regionTrailer
	maps    Mapper
}

// errRegion means that a descriptor of a peer is not a valid region.
var errRegion = errors.New("not a usable memory region")

// OpenRegion maps the region of another process, and closes fd. It returns an error if
// the region is not valid or has another key, or if its size exceeds a limit.
func OpenRegion(fd int, key uint32, maps Mapper) (*RemoteRegion, error) {
	defer unix.Close(fd)
	r := &RemoteRegion{maps: maps}
	length, err := r.check(fd, key)
	if err != nil {
		return nil, err
	}
	prot := unix.PROT_READ
	if r.Access&remoteWrites != 0 {
		prot |= unix.PROT_WRITE
	}
	if r.mem, err = maps.mmap(fd, length, prot, true); err != nil {
		return nil, err
	}
	r.trailer = trailerAt(r.mem[length-os.Getpagesize():])
	return r, nil
}

// check checks a descriptor that a peer has sent. It copies the trailer of the file to
// r.RegionInfo, and returns the size of the file. If check succeeds, no access to the
// mapped file can raise SIGBUS.
func (r *RemoteRegion) check(fd int, key uint32) (length int, err error) {
	if err := checkMemfd(fd); err != nil {
		return 0, fmt.Errorf("%w: %w", errRegion, err)
	}
	var st unix.Stat_t
	page := os.Getpagesize()
	if err := unix.Fstat(fd, &st); err != nil || st.Size < int64(2*page) || st.Size > math.MaxInt {
		return 0, fmt.Errorf("%w: %d bytes", errRegion, st.Size)
	}
	var words [trailerSize / 8]uint64 // aligned memory for the trailer
	raw := wordBytes(words[:])
	if n, err := unix.Pread(fd, raw, st.Size-int64(page)); err != nil || n != trailerSize {
		return 0, fmt.Errorf("%w: no trailer", errRegion)
	}
	t := trailerAt(raw)
	r.RegionInfo = RegionInfo{Key: t.key, Domain: t.domain, Access: verbs.Access(t.right), Base: t.base, Size: t.size}
	if t.magic != regionMagic || r.Key != key {
		return 0, fmt.Errorf("%w: magic %#x, key %#x", errRegion, t.magic, r.Key)
	}
	if r.Base%uint64(page) != 0 || r.Size == 0 || r.Size > uint64(st.Size) || int64(dataPages(r.Size)+page) != st.Size {
		return 0, fmt.Errorf("%w: %d bytes for a region of %d", errRegion, st.Size, r.Size)
	}
	return int(st.Size), nil
}

// At returns the part of the region that a remote operation may use. It returns nil if
// the region does not allow the access, or if the range is not inside the region. The
// parameter length must not be 0.
func (r *RemoteRegion) At(addr uint64, length uint32, access verbs.Access) []byte {
	// For an address below Base, off wraps around to a large number.
	off := addr - r.Base
	if r.Access&access != access || off > r.Size || uint64(length) > r.Size-off {
		return nil
	}
	return r.mem[off : off+uint64(length) : off+uint64(length)]
}

// Valid reports whether the region is still registered.
func (r *RemoteRegion) Valid() bool { return r.trailer.valid.Load() == 1 }

// Close unmaps the region.
func (r *RemoteRegion) Close() {
	r.maps.munmap(r.mem, true)
	r.mem = nil
}
