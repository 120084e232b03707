//go:build linux

package qp

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// pd implements verbs.PD.
type pd struct {
	engine *Engine
	num    uint32       // random number of the domain; see shm.RegionInfo
	refs   atomic.Int64 // number of open MRs, QPs, SRQs and AHs of the domain
	closed atomic.Bool
}

// AllocPD implements verbs.Device.
func (e *Engine) AllocPD() (verbs.PD, error) {
	if err := e.Add(objPD, "protection domains", maxPD); err != nil {
		return nil, operr.Wrap("alloc PD", err)
	}
	return &pd{engine: e, num: e.random.Uint32()}, nil
}

// Device implements verbs.PD.
func (p *pd) Device() verbs.Device { return p.engine.Host }

// Close implements verbs.PD.
func (p *pd) Close() error {
	if p.closed.Load() {
		return nil
	}
	if p.refs.Load() > 0 {
		return operr.Wrap("close PD", fmt.Errorf("%w: MRs, QPs, SRQs or AHs of the PD are open", verbs.ErrBusy))
	}
	if !p.closed.Swap(true) {
		p.engine.Remove(objPD)
	}
	return nil
}

// errNilAttr is the error of a call whose attributes are nil.
var errNilAttr = &verbs.ParamError{Field: "attributes", NotNumber: true, Reason: "missing"}

// checkEngine checks that the domain is open and belongs to an engine.
func (p *pd) checkEngine(e *Engine) error {
	if p.closed.Load() {
		return verbs.ErrClosed
	}
	if p.engine != e {
		return fmt.Errorf("%w: the protection domain is of another device", verbs.ErrForeign)
	}
	return nil
}

// mr implements verbs.MR. Any goroutine may call its methods. All shards of the domain
// may access buf.
//
// A bound memory window is an mr too, with the bytes and the rights of the window. Its
// field pd is nil, so that it can not be used as a region of a domain.
type mr struct {
	pd     *pd // nil for a bound window
	buf    []byte
	base   uint64
	key    uint32
	access verbs.Access
	memory ownedMemory // memory that Close unmaps; empty after Register
	// mayFault is true if pages of buf may be missing at an access; see RegisterFaulting.
	mayFault bool
	window   *binding // binding of a bound window; nil for a region
	// number of windows that are bound to the region; guarded by mrTable.mu
	windows int

	closed atomic.Bool
	inUse  atomic.Int32 // number of remote operations that use buf now
}

// checkSize checks the size of a region in bytes.
func checkSize(size int) error {
	switch {
	case size <= 0:
		return &verbs.ParamError{Field: "size", Value: int64(size), Limit: 1}
	case uint64(size) > maxMRSize:
		return &verbs.ParamError{Field: "size", Value: int64(size), Limit: maxMRSize}
	}
	return nil
}

// Alloc implements verbs.PD.
func (p *pd) Alloc(attr *verbs.AllocAttr) (verbs.MR, error) {
	if attr == nil {
		return nil, operr.Wrap("alloc MR", errNilAttr)
	}
	if err := checkSize(attr.Size); err != nil {
		return nil, operr.Wrap("alloc MR", err)
	}
	if err := attr.Access.Check(); err != nil {
		return nil, operr.Wrap("alloc MR", err)
	}
	memory, err := p.engine.allocate(attr)
	if err != nil {
		return nil, operr.Wrap("alloc MR", resource.Wrap(err))
	}
	m, err := p.newMR(&mr{buf: memory.bytes(attr.Size), access: attr.Access, memory: memory})
	if err != nil {
		_ = memory.free()
		return nil, operr.Wrap("alloc MR", err)
	}
	return m, nil
}

// Register implements verbs.PD.
func (p *pd) Register(b []byte, access verbs.Access) (verbs.MR, error) {
	return p.register(b, access, false)
}

// RegisterFaulting implements verbs.PD.
func (p *pd) RegisterFaulting(b []byte, access verbs.Access) (verbs.MR, error) {
	return p.register(b, access, true)
}

// register implements Register and RegisterFaulting.
func (p *pd) register(b []byte, access verbs.Access, mayFault bool) (verbs.MR, error) {
	if len(b) == 0 {
		return nil, operr.Wrap("register MR", checkSize(0))
	}
	if err := access.Check(); err != nil {
		return nil, operr.Wrap("register MR", err)
	}
	m, err := p.newMR(&mr{buf: b, access: access, mayFault: mayFault})
	if err != nil {
		return nil, operr.Wrap("register MR", err)
	}
	return m, nil
}

// newMR adds a region with the memory and the rights of m to the domain. It sets the
// other fields of m, and returns m.
func (p *pd) newMR(m *mr) (*mr, error) {
	if p.closed.Load() {
		return nil, verbs.ErrClosed
	}
	m.pd, m.base = p, addressOf(m.buf)
	if err := p.engine.mrs.insert(m); err != nil {
		return nil, err
	}
	p.refs.Add(1)
	p.engine.Memory.Add(m.gauge())
	if m.memory.region != nil {
		m.memory.region.Publish(&shm.RegionInfo{Key: m.key, Domain: p.num, Access: m.access, Base: m.base, Size: uint64(len(m.buf))})
	}
	return m, nil
}

// gauge returns the counter of the memory of an open region, and the number of bytes.
func (m *mr) gauge() (id counters.ID, bytes uint64) {
	if n := m.memory.size(); n > 0 {
		return counters.AllocBytes, uint64(n)
	}
	return counters.RegisteredBytes, uint64(len(m.buf))
}

// PD implements verbs.MR.
func (m *mr) PD() verbs.PD { return m.pd }

// Bytes implements verbs.MR.
func (m *mr) Bytes() []byte { return m.buf }

// Addr implements verbs.MR.
func (m *mr) Addr() uint64 { return m.base }

// LKey implements verbs.MR.
func (m *mr) LKey() uint32 { return m.key }

// RKey implements verbs.MR. It is the same number as LKey.
func (m *mr) RKey() uint32 { return m.key }

// Access implements verbs.MR.
func (m *mr) Access() verbs.Access { return m.access }

// Close implements verbs.MR. It does not wait for a process that has mapped the region:
// its mapping is a file of its own, and stays valid.
func (m *mr) Close() error {
	if open, err := m.pd.engine.mrs.close(m); !open {
		return operr.Wrap("close MR", err)
	}
	if m.memory.region != nil {
		m.memory.region.Revoke()
	}
	// A shard may still be copying one fragment of a remote operation.
	for m.inUse.Load() > 0 {
		runtime.Gosched()
	}
	// A shard may also be copying data for a work request of the application. The field
	// inUse does not count these copies.
	m.pd.engine.waitForShards()
	m.pd.refs.Add(-1)
	m.pd.engine.Memory.Sub(m.gauge())
	return operr.Wrap("close MR", m.memory.free())
}

// Discard implements verbs.MR. It gives whole pages back to the system. Not all
// memory can be discarded; see ownedMemory.discardAdvice.
func (m *mr) Discard(offset, length int) error {
	const op = "discard memory"
	if offset < 0 || length < 0 || length > len(m.buf) || offset > len(m.buf)-length {
		return operr.Wrap(op, &verbs.ParamError{Field: "offset", Value: int64(offset), Limit: int64(len(m.buf) - length), Reason: "the range is outside the region"})
	}
	if m.closed.Load() {
		return operr.Wrap(op, verbs.ErrClosed)
	}
	advice, ok := m.memory.discardAdvice(m.access)
	if !ok {
		return operr.Wrap(op, &verbs.FeatureError{Feature: op, Reason: errNoDiscard})
	}
	page := os.Getpagesize() // buf begins at a page boundary
	begin, end := (offset+page-1)&^(page-1), (offset+length)&^(page-1)
	if begin >= end {
		return nil
	}
	return operr.Wrap(op, unix.Madvise(m.buf[begin:end], advice))
}

// copy copies len(src) bytes to dst. One of the two is memory of the region. It returns
// false if a page of the region is missing; a part may be copied then.
func (m *mr) copy(dst, src []byte) bool {
	if m.mayFault {
		return copyGuarded(dst, src)
	}
	copy(dst, src)
	return true
}

// bytesAt returns bytes of the region, from an address on. It returns false if they are
// not in the region.
func (m *mr) bytesAt(addr uint64, length uint32) ([]byte, bool) {
	// For an address below base the difference wraps, and the check fails.
	off := addr - m.base
	size := uint64(len(m.buf))
	if off > size || uint64(length) > size-off {
		return nil, false
	}
	return m.buf[off : off+uint64(length) : off+uint64(length)], true
}

// sgeMemory returns the region and the memory of an SGE. It returns nil if the region
// does not exist or does not allow the access.
func (p *pd) sgeMemory(sge *verbs.SGE, access verbs.Access) (*mr, []byte) {
	m := p.engine.mrs.find(sge.LKey)
	if m == nil || m.pd != p || m.access&access != access {
		return nil, nil
	}
	buf, ok := m.bytesAt(sge.Addr, sge.Length)
	if !ok {
		return nil, nil
	}
	return m, buf
}

// sgeBytesFrom returns the bytes of an SGE from an offset to its end, and their region.
// The offset counts the bytes of all SGEs. The region is nil if the memory is not
// accessible.
func (p *pd) sgeBytesFrom(sges []verbs.SGE, offset uint32, access verbs.Access) (*mr, []byte) {
	for i := range sges {
		if offset < sges[i].Length {
			m, buf := p.sgeMemory(&sges[i], access)
			if m == nil {
				return nil, nil
			}
			return m, buf[offset:]
		}
		offset -= sges[i].Length
	}
	return nil, nil
}

// scatter copies data to the memory of sges, from an offset on. It returns false if some
// memory is not accessible; a part may be copied then.
func (p *pd) scatter(sges []verbs.SGE, offset uint32, data []byte) bool {
	for len(data) > 0 {
		m, to := p.sgeBytesFrom(sges, offset, verbs.AccessLocalWrite)
		n := min(len(to), len(data))
		if m == nil || !m.copy(to, data[:n]) {
			return false
		}
		data, offset = data[n:], offset+uint32(n)
	}
	return true
}

// gather fills dst from the memory of sges, from an offset on. If the parameter uncached
// is true, gather stores past the caches. It returns false if some memory is not
// accessible.
func (p *pd) gather(dst []byte, sges []verbs.SGE, offset uint32, uncached bool) bool {
	for len(dst) > 0 {
		m, from := p.sgeBytesFrom(sges, offset, 0)
		n := min(len(dst), len(from))
		switch {
		case m == nil:
			return false
		case uncached && !m.mayFault:
			shm.CopyUncached(dst[:n], from)
		case !m.copy(dst[:n], from):
			return false
		}
		dst, offset = dst[n:], offset+uint32(n)
	}
	return true
}

// acquire keeps the memory mapped until release(), even if Close is called. It returns
// false if the region is closed.
func (m *mr) acquire() bool {
	m.inUse.Add(1)
	if m.closed.Load() {
		m.inUse.Add(-1)
		return false
	}
	return true
}

// release ends the use of the memory that acquire or acquireRemote has begun.
func (m *mr) release() { m.inUse.Add(-1) }

// An ownedMemory is memory that the device has mapped for a region. At most one of its
// fields region and mapped is set.
type ownedMemory struct {
	sim    simhost.Host // simulated host; nil on the real host
	region *shm.Region  // memory that peers on this host can map
	mapped []byte       // private memory; its size is rounded up for huge pages
	huge   bool         // true if mapped consists of huge pages
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
		if buf, err := simhost.Map(e.Sim, func() ([]byte, error) { return mapHuge(attr.Size) }); err == nil {
			return ownedMemory{sim: e.Sim, mapped: buf, huge: true}, nil
		}
	}
	if attr.Access&remote != 0 && e.Regions != nil {
		if r, err := shm.NewRegion(attr.Size, attr.Access, e.Regions); err == nil {
			return ownedMemory{region: r}, nil
		}
	}
	buf, err := simhost.Map(e.Sim, func() ([]byte, error) {
		return unix.Mmap(-1, 0, attr.Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	})
	return ownedMemory{sim: e.Sim, mapped: buf}, err
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

// size returns the number of bytes that are mapped.
func (o *ownedMemory) size() int {
	if o.region != nil {
		return o.region.MappedBytes()
	}
	return len(o.mapped)
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
		simhost.Unmapped(o.sim, o.mapped)
		return unix.Munmap(o.mapped)
	}
	return nil
}

// copyGuarded copies len(src) bytes to dst. If a page is missing, it returns false, and
// perhaps has copied a part. The compiler inlines mr.copy only because copyGuarded is not
// inlined.
//
//go:noinline
func copyGuarded(dst, src []byte) bool { return guarded(func() { copy(dst, src) }) }

// guarded calls fn, which accesses memory whose pages may be missing. It returns false
// if an access has failed. Without guarded(), a failed access ends the process with
// SIGBUS.
func guarded(fn func()) (ok bool) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if ok {
			return
		}
		if cause := recover(); !isFault(cause) {
			panic(cause)
		}
	}()
	fn()
	return true
}

// isFault reports whether a panic was caused by an access to memory; see
// debug.SetPanicOnFault.
func isFault(cause any) bool {
	_, ok := cause.(interface{ Addr() uintptr })
	return ok
}
