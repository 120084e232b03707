package reactor

import (
	"math"
	"os"
	"slices"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/reactor/internal/memory"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Register makes a Region of memory that belongs to the caller: memory of the Go heap, a
// mapping, or an arena. The caller must not unmap the memory before Close, or before the
// engine has ended. Memory of the Go heap stays in place and alive as long as it is
// registered. Any goroutine may call Register.
//
// For a mapping of a file see also MapFile: if an operation needs a page that the file
// does not have, the process gets SIGBUS. The parameter b has at least 1 byte. Peers get
// the rights in access: see Remote. The package rdmacore pins the memory, and
// RLIMIT_MEMLOCK limits how much a process may pin. If the limit is exceeded, the error
// names the limit and matches ENOMEM. The package soft does not pin memory.
//
// Other errors are those of verbs.PD.Register, and ErrClosed after the end of the engine.
func (e *Engine) Register(b []byte, access verbs.Access) (*Region, error) {
	const op = "register memory"
	if err := checkMemory(len(b), access); err != nil {
		return nil, operr.Wrap(op, err)
	}
	r := newRegion(e, b, access)
	if err := e.addRegion(r); err != nil {
		return nil, operr.Wrap(op, err)
	}
	return r, nil
}

// Alloc maps size bytes of zeroed memory outside the Go heap, and makes a Region of it.
// Close, or the end of the engine, unmaps the memory. On the local path of the package
// soft, peers of the same user can map such memory, which makes their READs and WRITEs
// faster than with Register. Any goroutine may call Alloc.
//
// The errors are those of Register and of verbs.PD.Alloc.
func (e *Engine) Alloc(size int, access verbs.Access) (*Region, error) {
	const op = "allocate memory"
	if err := checkMemory(size, access); err != nil {
		return nil, operr.Wrap(op, err)
	}
	r, err := e.allocRegion(size, access)
	if err != nil {
		return nil, operr.Wrap(op, err)
	}
	if err := e.addRegion(r); err != nil {
		return nil, operr.Wrap(op, err)
	}
	return r, nil
}

// checkMemory returns an error if a Region can not have this size or these rights.
func checkMemory(size int, access verbs.Access) error {
	if err := operr.CheckRange("size", size, 1, math.MaxInt); err != nil {
		return err
	}
	return access.Check()
}

// allocRegion returns a Region with new memory. A device that the engine uses allocates
// the memory, or else the first device of the provider. If there is no device, or the
// size exceeds the limit of the device, allocRegion maps the memory itself.
func (e *Engine) allocRegion(size int, access verbs.Access) (*Region, error) {
	d, err := e.firstDomain()
	if err != nil {
		return nil, err
	}
	if d == nil || size > memory.LargestPart(d.Dev) {
		return e.mapRegion(size, access)
	}
	mr, err := d.PD.Alloc(&verbs.AllocAttr{Size: size, Access: access, HugePages: e.cfg.Memory.HugePages})
	if err != nil {
		return nil, err
	}
	r := newRegion(e, mr.Bytes(), access)
	r.store(d, memory.OfAllocated(mr))
	return r, nil
}

// mapRegion returns a Region with memory that no device has allocated.
func (e *Engine) mapRegion(size int, access verbs.Access) (*Region, error) {
	b, err := memory.Map(size)
	if err != nil {
		return nil, err
	}
	r := newRegion(e, b, access)
	r.mapped = b
	return r, nil
}

// firstDomain returns the domain of a device that the engine uses, or else of the first
// device. It returns nil if the provider has no device.
func (e *Engine) firstDomain() (*memory.Domain, error) {
	if all := e.domains.All(); len(all) > 0 {
		return all[0], nil
	}
	devices, err := e.provider.Devices()
	if err != nil || len(devices) == 0 {
		return nil, err
	}
	return e.domains.Of(devices[0])
}

// domainOn returns the domain on a device that the application has named. If the device
// belongs to another provider, the error is verbs.ErrForeign.
func (e *Engine) domainOn(dev verbs.Device) (*memory.Domain, error) {
	for _, d := range e.domains.All() {
		if d.Dev == dev {
			return d, nil
		}
	}
	devices, err := e.provider.Devices()
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains(devices, dev):
		return nil, foreignError("the device is nil or of another provider")
	}
	return e.domains.Of(dev)
}

// addRegion adds a region to the engine, and registers it on all devices that the engine
// uses. After an error the region is released.
func (e *Engine) addRegion(r *Region) error {
	err := e.regions.add(r)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return firstError(err, r.unregister())
	}
	for _, d := range e.domains.All() {
		if _, err = r.on(d); err != nil {
			return firstError(err, r.cancel())
		}
	}
	return nil
}

// onEveryLoop calls fn for each loop, on the goroutine of that loop. For loops that have
// not started or that have ended, it calls fn on the calling goroutine. It does not wait
// for the other calls.
func (e *Engine) onEveryLoop(fn func(*Loop)) {
	if e.onIdleLoops(fn) {
		return
	}
	for _, l := range e.loops {
		if l.post("close region", func() { fn(l) }, true) != nil {
			fn(l)
		}
	}
}

// onIdleLoops calls fn for each loop if the engine was neither started nor stopped. It
// reports whether it has called fn.
func (e *Engine) onIdleLoops(fn func(*Loop)) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started || e.stopping.Load() {
		return false
	}
	for _, l := range e.loops {
		fn(l)
	}
	return true
}

// MapFile maps a part of a file, and makes a Region of the mapping. The offset and the length
// are in bytes. The mapping is shared: WRITEs of peers change the file, and
// msync(2) or fsync(2) stores the changes. The file is mapped for writing if access has
// verbs.AccessLocalWrite. The descriptor may be closed when MapFile returns.
//
// A file may be shorter than the mapping, or become shorter. With the package soft, an
// operation on the missing bytes fails. The status at the requester is
// verbs.StatusLocProtErr for its own memory, and verbs.StatusRemOpErr for memory of the
// peer. Only operations are protected: when the program itself uses missing bytes of
// Region.Bytes, the process gets SIGBUS.
//
// The package rdmacore pins the pages. All bytes must exist when the file is mapped. When
// the file becomes shorter, operations use pages that do not belong to the file any more.
// The kernel may refuse to pin pages of a file (ibv_reg_mr(3)).
//
// The errors are those of Register, of mmap(2), and a *verbs.ParamError if the offset is
// negative.
func (e *Engine) MapFile(fd int, offset int64, length int, access verbs.Access) (*Region, error) {
	const op = "map file"
	if err := checkMemory(length, access); err != nil {
		return nil, operr.Wrap(op, err)
	}
	if offset < 0 {
		return nil, operr.Wrap(op, &verbs.ParamError{Field: "offset", Value: offset, Reason: "negative"})
	}
	inPage := int(offset % int64(os.Getpagesize())) // mmap(2) needs a multiple of the page size.
	mapped, err := memory.MapFile(fd, offset-int64(inPage), inPage+length, access&verbs.AccessLocalWrite != 0)
	if err != nil {
		return nil, operr.Wrap(op, err)
	}
	r := newRegion(e, mapped[inPage:inPage+length:inPage+length], access)
	r.mapped, r.mayFault = mapped, true
	if err := e.addRegion(r); err != nil {
		return nil, operr.Wrap(op, err)
	}
	return r, nil
}
