//go:build linux

package qp

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An ownedMemory is memory that the device has mapped for a region. At most one of its
// fields region and mapped is set.
type ownedMemory struct {
	region *shm.Region // memory that peers on this host can map
	mapped []byte      // private memory; its size is rounded up for huge pages
	huge   bool        // true if mapped consists of huge pages
}

// The shared regions of a device use at most RLIMIT_NOFILE / RegionDescriptors
// descriptors. Arbitrary.
const RegionDescriptors = 8

// allocate maps zeroed memory for a region. The memory is private, or peers on this host
// can map it. It is private if no peer may access the region, if the configuration says
// so, or if there are too many shared regions. Memory of huge pages is always private,
// because an access to a missing huge page of a memfd raises SIGBUS.
func (e *Engine) allocate(attr *verbs.AllocAttr) (ownedMemory, error) {
	const remote = verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic
	if attr.HugePages {
		if buf, err := mapHuge(attr.Size); err == nil {
			return ownedMemory{mapped: buf, huge: true}, nil
		}
	}
	if attr.Access&remote != 0 && e.Regions != nil {
		if r, err := shm.NewRegion(attr.Size, attr.Access, e.Regions); err == nil {
			return ownedMemory{region: r}, nil
		}
	}
	buf, err := unix.Mmap(-1, 0, attr.Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	return ownedMemory{mapped: buf}, err
}

// mapHuge maps zeroed memory of huge pages.
func mapHuge(size int) ([]byte, error) {
	const hugePage = 2 << 20
	rounded := (size + hugePage - 1) &^ (hugePage - 1)
	return unix.Mmap(-1, 0, rounded, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_HUGETLB)
}

// bytes returns the memory of a region with the given size.
func (o *ownedMemory) bytes(size int) []byte {
	if o.region != nil {
		return o.region.Bytes()
	}
	return o.mapped[:size:size]
}

// errNoDiscard is the error of mr.Discard for memory that can not be discarded.
var errNoDiscard = errors.New("the memory was not allocated by Alloc, has huge pages, or peers may only read it")

// discardAdvice returns the advice for madvise(2) that discards pages. The result ok is
// false if the pages are huge, or sealed against writing (fcntl(2),
// F_SEAL_FUTURE_WRITE). Such pages can not be discarded.
func (o *ownedMemory) discardAdvice(access verbs.Access) (advice int, ok bool) {
	if o.region != nil {
		return unix.MADV_REMOVE, access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0
	}
	return unix.MADV_DONTNEED, o.mapped != nil && !o.huge
}

func (o *ownedMemory) free() error {
	switch {
	case o.region != nil:
		return o.region.Close()
	case o.mapped != nil:
		return unix.Munmap(o.mapped)
	}
	return nil
}
