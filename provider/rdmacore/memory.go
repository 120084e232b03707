//go:build cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// pd implements verbs.PD.
type pd struct {
	dev   *device
	c     *C.struct_ibv_pd
	users userCount // counts MRs, MWs, QPs, SRQs and AHs

	windows sync.Mutex // lock for mw.c, mw.qp and qp.windows
}

// AllocPD creates a protection domain.
//
// Implements: ibv_alloc_pd(3).
func (d *device) AllocPD() (verbs.PD, error) {
	const op = "alloc PD"
	if err := d.provider.users.add(); err != nil {
		return nil, operr.Wrap(op, err)
	}
	c, err := C.ibv_alloc_pd(d.ctx)
	if c == nil {
		d.provider.users.remove()
		return nil, createError(op, err)
	}
	return &pd{dev: d, c: c}, nil
}

func (p *pd) Device() verbs.Device { return p.dev }

// Close destroys the domain.
//
// Implements: ibv_dealloc_pd(3).
func (p *pd) Close() error {
	return operr.Wrap("close PD", p.users.close(func() error {
		if err := verbsError("close PD", int32(C.ibv_dealloc_pd(p.c))); err != nil {
			return err
		}
		p.dev.provider.users.remove()
		return nil
	}))
}

// mr implements verbs.MR.
type mr struct {
	pd      *pd
	c       *C.struct_ibv_mr
	buf     []byte
	lkey    uint32
	rkey    uint32
	access  verbs.Access
	mapping []byte         // mapped by Alloc; nil if the memory belongs to the caller
	pin     runtime.Pinner // pins memory that was passed to Register
	users   userCount
}

// Alloc maps memory and registers it.
func (p *pd) Alloc(attr *verbs.AllocAttr) (verbs.MR, error) {
	const op = "alloc MR"
	if err := p.checkMR(attr.Size, attr.Access); err != nil {
		return nil, operr.Wrap(op, err)
	}
	m := &mr{pd: p, access: attr.Access}
	if err := m.mmap(attr.Size, attr.HugePages); err != nil {
		return nil, operr.Wrap(op, err)
	}
	if err := m.register(op); err != nil {
		_ = unix.Munmap(m.mapping)
		return nil, err
	}
	return m, nil
}

// Register registers memory of the caller. Memory in the Go heap stays pinned until
// Close.
func (p *pd) Register(b []byte, access verbs.Access) (verbs.MR, error) {
	const op = "register MR"
	if err := p.checkMR(len(b), access); err != nil {
		return nil, operr.Wrap(op, err)
	}
	m := &mr{pd: p, access: access, buf: b}
	m.pin.Pin(unsafe.SliceData(b))
	if err := m.register(op); err != nil {
		m.pin.Unpin()
		return nil, err
	}
	return m, nil
}

// RegisterFaulting is Register: the pages of a region are pinned.
func (p *pd) RegisterFaulting(b []byte, access verbs.Access) (verbs.MR, error) {
	return p.Register(b, access)
}

func (p *pd) checkMR(size int, access verbs.Access) error {
	limit := p.dev.attr.MaxMRSize
	if size <= 0 || uint64(size) > limit {
		return &verbs.ParamError{Field: "size", Value: int64(size), Limit: int64(min(limit, 1<<63-1)), Reason: "out of range"}
	}
	if err := access.Check(); err != nil || access&verbs.AccessMWBind == 0 {
		return err
	}
	return p.dev.checkWindows()
}

const hugePage = 2 << 20

// mmap maps zeroed memory. If the parameter huge is true, it first tries to use reserved
// huge pages.
func (m *mr) mmap(size int, huge bool) (err error) {
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	if huge {
		rounded := (size + hugePage - 1) &^ (hugePage - 1)
		m.mapping, err = unix.Mmap(-1, 0, rounded, prot, flags|unix.MAP_HUGETLB)
	}
	if m.mapping == nil {
		m.mapping, err = unix.Mmap(-1, 0, size, prot, flags)
	}
	if err != nil {
		return err
	}
	m.buf = m.mapping[:size:size]
	return nil
}

// register creates the memory region. C gets the address of the memory as an integer.
//
// Implements: ibv_reg_mr(3).
func (m *mr) register(op string) error {
	if err := m.pd.users.add(); err != nil {
		return operr.Wrap(op, err)
	}
	c, err := C.rl_reg_mr(m.pd.c, C.uint64_t(m.Addr()), C.uint64_t(len(m.buf)), C.int(m.access))
	if c == nil {
		m.pd.users.remove()
		return memoryError(op, len(m.buf), err)
	}
	m.c, m.lkey, m.rkey = c, uint32(c.lkey), uint32(c.rkey)
	return nil
}

// memoryError returns the error of a registration of size bytes. The usual cause of
// ENOMEM is the limit of locked memory, so the error names this limit. All pinned memory
// of the process counts (getrlimit(2), RLIMIT_MEMLOCK).
func memoryError(op string, size int, err error) error {
	var limit unix.Rlimit
	switch {
	case !errors.Is(err, unix.ENOMEM):
		return createError(op, err)
	case unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil || limit.Cur == unix.RLIM_INFINITY:
		return operr.Wrap(op, fmt.Errorf("%w: %d bytes", err, size))
	}
	return operr.Wrap(op, fmt.Errorf("%w: %d bytes; the process may lock %d bytes in all (RLIMIT_MEMLOCK, ulimit -l)", err, size, limit.Cur))
}

func (m *mr) PD() verbs.PD         { return m.pd }
func (m *mr) Bytes() []byte        { return m.buf }
func (m *mr) Addr() uint64         { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(m.buf)))) }
func (m *mr) LKey() uint32         { return m.lkey }
func (m *mr) RKey() uint32         { return m.rkey }
func (m *mr) Access() verbs.Access { return m.access }

// errPinned is the reason of the error of mr.Discard.
var errPinned = errors.New("the device has pinned the memory")

// Discard fails, because the device keeps the pages.
func (m *mr) Discard(int, int) error {
	const op = "discard memory"
	return operr.Wrap(op, m.users.whileOpen(func() error {
		return &verbs.FeatureError{Feature: op, Reason: errPinned}
	}))
}

// Close ends the registration, and unmaps memory that Alloc has mapped.
//
// Implements: ibv_dereg_mr(3).
func (m *mr) Close() error {
	return operr.Wrap("close MR", m.users.close(func() error {
		if err := m.deregister(); err != nil {
			return err
		}
		m.pd.users.remove()
		m.pin.Unpin()
		if m.mapping != nil {
			_ = unix.Munmap(m.mapping) // Unmapping a whole mapping does not fail.
		}
		return nil
	}))
}

// deregister ends the registration. If windows are bound to the region, some devices
// report EINVAL instead of EBUSY. The error then wraps verbs.ErrBusy too.
func (m *mr) deregister() error {
	err := verbsError("close MR", int32(C.ibv_dereg_mr(m.c)))
	if m.access&verbs.AccessMWBind != 0 && errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%w: memory windows are bound to the region: %w", verbs.ErrBusy, err)
	}
	return err
}
