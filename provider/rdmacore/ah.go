//go:build cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"sync/atomic"
	"unsafe"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// ah implements verbs.AH.
type ah struct {
	pd    *pd
	attr  verbs.AHAttr
	c     atomic.Pointer[C.struct_ibv_ah] // address handle of libibverbs; nil after Close
	users userCount
}

// CreateAH creates an address handle.
//
// Implements: ibv_create_ah(3).
func (p *pd) CreateAH(attr *verbs.AHAttr) (verbs.AH, error) {
	const op = "create AH"
	if err := p.dev.checkAH(attr); err != nil {
		return nil, operr.Wrap(op, err)
	}
	if err := p.users.add(); err != nil {
		return nil, operr.Wrap(op, err)
	}
	raw := toAHAttr(attr)
	c, err := C.ibv_create_ah(p.c, &raw)
	if c == nil {
		p.users.remove()
		return nil, createError(op, err)
	}
	a := &ah{pd: p, attr: *attr}
	a.c.Store(c)
	return a, nil
}

// checkAH returns a *verbs.ParamError if the port or the GID index does not exist. Some
// devices do not check them.
func (d *device) checkAH(a *verbs.AHAttr) error {
	if err := d.checkPort(a.Port); err != nil {
		return err
	}
	return within("source GID index", a.SourceIndex, 0, min(d.gidTable-1, 255))
}

func (a *ah) Attr() verbs.AHAttr { return a.attr }

// address returns the address of the struct ibv_ah, for send requests.
func (a *ah) address() (uint64, error) {
	c := a.c.Load()
	if c == nil {
		return 0, verbs.ErrClosed
	}
	return uint64(uintptr(unsafe.Pointer(c))), nil
}

// Close destroys the handle.
//
// Implements: ibv_destroy_ah(3).
func (a *ah) Close() error {
	return operr.Wrap("close AH", a.users.close(func() error {
		c := a.c.Swap(nil)
		if err := verbsError("close AH", int32(C.ibv_destroy_ah(c))); err != nil {
			a.c.Store(c)
			return err
		}
		a.pd.users.remove()
		return nil
	}))
}

func toAHAttr(a *verbs.AHAttr) C.struct_ibv_ah_attr {
	out := C.struct_ibv_ah_attr{is_global: 1, port_num: C.uint8_t(a.Port)}
	out.grh = C.struct_ibv_global_route{
		dgid:          C.union_ibv_gid(a.DestGID),
		flow_label:    C.uint32_t(a.FlowLabel),
		sgid_index:    C.uint8_t(a.SourceIndex),
		hop_limit:     C.uint8_t(a.HopLimit),
		traffic_class: C.uint8_t(a.TrafficClass),
	}
	return out
}

func fromAHAttr(raw *C.struct_ibv_ah_attr) verbs.AHAttr {
	return verbs.AHAttr{
		DestGID:      verbs.GID(raw.grh.dgid),
		SourceIndex:  int(raw.grh.sgid_index),
		FlowLabel:    uint32(raw.grh.flow_label),
		HopLimit:     uint8(raw.grh.hop_limit),
		TrafficClass: uint8(raw.grh.traffic_class),
		Port:         uint8(raw.port_num),
	}
}
