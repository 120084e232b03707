//go:build linux

package soft

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// pd implements verbs.PD.
type pd struct {
	dev    *device
	users  atomic.Int64 // MRs, QPs, SRQs and AHs made from it
	closed atomic.Bool
}

func (d *device) AllocPD() (verbs.PD, error) {
	if err := d.add(objPD, "protection domains", maxPD); err != nil {
		return nil, verbs.Wrap("alloc PD", err)
	}
	return &pd{dev: d}, nil
}

func (p *pd) Device() verbs.Device { return p.dev }

func (p *pd) Close() error {
	if p.closed.Load() {
		return nil
	}
	if p.users.Load() > 0 {
		return verbs.Wrap("close PD", verbs.ErrBusy)
	}
	if !p.closed.Swap(true) {
		p.dev.remove(objPD)
	}
	return nil
}

// errNilAttr is for calls without the attributes that they need.
var errNilAttr = &verbs.ParamError{Field: "attributes", Reason: "missing"}

// own checks that an object handed in by a caller belongs to this domain's
// device.
func (p *pd) checkDevice(dev *device) error {
	if p.closed.Load() {
		return verbs.ErrClosed
	}
	if p.dev != dev {
		return verbs.ErrForeign
	}
	return nil
}

// mr implements verbs.MR. Remote operations on it come from any shard.
type mr struct {
	pd     *pd
	buf    []byte
	base   uint64
	key    uint32
	access verbs.Access
	mapped []byte // what is ours to unmap: buf, or more where pages are huge
	huge   bool   // mapped consists of huge pages

	closed atomic.Bool
	inUse  atomic.Int32 // remote operations that touch buf at this moment
}

func (p *pd) Alloc(attr *verbs.AllocAttr) (verbs.MR, error) {
	if attr == nil {
		return nil, verbs.Wrap("alloc MR", errNilAttr)
	}
	if attr.Size <= 0 || uint64(attr.Size) > maxMRSize {
		return nil, verbs.Wrap("alloc MR", &verbs.ParamError{Field: "size", Value: int64(attr.Size), Limit: maxMRSize, Reason: "out of range"})
	}
	if err := attr.Access.Check(); err != nil {
		return nil, verbs.Wrap("alloc MR", err)
	}
	mapped, huge, err := mapAnonymous(attr.Size, attr.HugePages)
	if err != nil {
		return nil, verbs.Wrap("alloc MR", err)
	}
	m, err := p.newMR(mapped[:attr.Size:attr.Size], attr.Access, mapped)
	if err != nil {
		_ = unix.Munmap(mapped)
		return nil, verbs.Wrap("alloc MR", err)
	}
	m.huge = huge
	return m, nil
}

func (p *pd) Register(b []byte, access verbs.Access) (verbs.MR, error) {
	if len(b) == 0 {
		return nil, verbs.Wrap("register MR", &verbs.ParamError{Field: "size", Value: 0, Limit: maxMRSize, Reason: "out of range"})
	}
	if err := access.Check(); err != nil {
		return nil, verbs.Wrap("register MR", err)
	}
	m, err := p.newMR(b, access, nil)
	if err != nil {
		return nil, verbs.Wrap("register MR", err)
	}
	return m, nil
}

func (p *pd) newMR(buf []byte, access verbs.Access, mapped []byte) (*mr, error) {
	if p.closed.Load() {
		return nil, verbs.ErrClosed
	}
	m := &mr{pd: p, buf: buf, base: addressOf(buf), access: access, mapped: mapped}
	if err := p.dev.mrs.insert(m); err != nil {
		return nil, err
	}
	p.users.Add(1)
	return m, nil
}

// mapAnonymous maps zeroed memory. It uses huge pages if huge is true and the system
// has some reserved, and reports whether it did.
func mapAnonymous(size int, huge bool) (buf []byte, isHuge bool, err error) {
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	if huge {
		const hugePage = 2 << 20
		rounded := (size + hugePage - 1) &^ (hugePage - 1)
		if buf, err := unix.Mmap(-1, 0, rounded, prot, flags|unix.MAP_HUGETLB); err == nil {
			return buf, true, nil
		}
	}
	buf, err = unix.Mmap(-1, 0, size, prot, flags)
	return buf, false, err
}

func (m *mr) PD() verbs.PD         { return m.pd }
func (m *mr) Bytes() []byte        { return m.buf }
func (m *mr) Addr() uint64         { return m.base }
func (m *mr) LKey() uint32         { return m.key }
func (m *mr) RKey() uint32         { return m.key }
func (m *mr) Access() verbs.Access { return m.access }

func (m *mr) Close() error {
	if m.closed.Swap(true) {
		return nil
	}
	m.pd.dev.mrs.remove(m)
	// A remote operation that found the region before it was removed may still
	// be copying; it is done within one fragment's copy.
	for m.inUse.Load() > 0 {
		runtime.Gosched()
	}
	// So may a shard that copies to or from a posted buffer.
	m.pd.dev.waitForShards()
	m.pd.users.Add(-1)
	if m.mapped == nil {
		return nil
	}
	return verbs.Wrap("close MR", unix.Munmap(m.mapped))
}

// Discard gives whole pages back to the system; see verbs.Discarder. It fails for
// huge pages, and for memory of the caller.
func (m *mr) Discard(offset, length int) error {
	const op = "discard memory"
	if offset < 0 || length < 0 || length > len(m.buf) || offset > len(m.buf)-length {
		return verbs.Wrap(op, &verbs.ParamError{Field: "offset", Value: int64(offset), Limit: int64(len(m.buf) - length), Reason: "out of range"})
	}
	if m.closed.Load() {
		return verbs.Wrap(op, verbs.ErrClosed)
	}
	if m.mapped == nil || m.huge {
		return verbs.Wrap(op, &verbs.FeatureError{Feature: op, Reason: errors.New("not mapped by Alloc in ordinary pages")})
	}
	page := os.Getpagesize() // buf begins at a page boundary
	begin, end := (offset+page-1)&^(page-1), (offset+length)&^(page-1)
	if begin >= end {
		return nil
	}
	return verbs.Wrap(op, unix.Madvise(m.buf[begin:end], unix.MADV_DONTNEED))
}

// window returns the bytes that address and length name, or false when they
// are not inside the region.
func (m *mr) bytesAt(addr uint64, length uint32) ([]byte, bool) {
	off := addr - m.base // wraps for addresses in front; the check below catches that
	size := uint64(len(m.buf))
	if off > size || uint64(length) > size-off {
		return nil, false
	}
	return m.buf[off : off+uint64(length) : off+uint64(length)], true
}

// local finds the memory of an SGE of this domain that allows access.
func (p *pd) sgeMemory(sge *verbs.SGE, access verbs.Access) ([]byte, bool) {
	m := p.dev.mrs.find(sge.LKey)
	if m == nil || m.pd != p || m.access&access != access {
		return nil, false
	}
	return m.bytesAt(sge.Addr, sge.Length)
}

// piece is the memory of sges from offset on, as far as it lies in one region;
// false when there is none that allows access.
func (p *pd) sgeBytesFrom(sges []verbs.SGE, offset uint32, access verbs.Access) ([]byte, bool) {
	for i := range sges {
		if offset < sges[i].Length {
			buf, ok := p.sgeMemory(&sges[i], access)
			if !ok {
				return nil, false
			}
			return buf[offset:], true
		}
		offset -= sges[i].Length
	}
	return nil, false
}

// scatter copies data to the memory of sges, from offset on. It returns false,
// having copied a part, when some of it is not accessible.
func (p *pd) scatter(sges []verbs.SGE, offset uint32, data []byte) bool {
	for len(data) > 0 {
		to, ok := p.sgeBytesFrom(sges, offset, verbs.AccessLocalWrite)
		if !ok {
			return false
		}
		n := copy(to, data)
		data, offset = data[n:], offset+uint32(n)
	}
	return true
}

// gather fills dst from the memory of sges, from offset on, and returns as
// scatter does.
func (p *pd) gather(dst []byte, sges []verbs.SGE, offset uint32) bool {
	for len(dst) > 0 {
		from, ok := p.sgeBytesFrom(sges, offset, 0)
		if !ok {
			return false
		}
		n := copy(dst, from)
		dst, offset = dst[n:], offset+uint32(n)
	}
	return true
}

// acquireRemote finds the memory that a peer's request names and keeps it from
// being unmapped until leave. It returns nil when key, bounds or rights do not
// hold.
func (p *pd) acquireRemote(key uint32, addr uint64, length uint32, access verbs.Access) (*mr, []byte) {
	m := p.dev.mrs.find(key)
	if m == nil || m.pd != p || m.access&access != access {
		return nil, nil
	}
	buf, ok := m.bytesAt(addr, length)
	if !ok {
		return nil, nil
	}
	m.inUse.Add(1)
	if m.closed.Load() {
		m.inUse.Add(-1)
		return nil, nil
	}
	return m, buf
}

// leave ends what acquireRemote began.
func (m *mr) release() { m.inUse.Add(-1) }
