//go:build cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// mw implements verbs.MW. The mutex pd.windows protects the fields after key.
type mw struct {
	pd    *pd
	users userCount
	key   atomic.Uint32    // present key of the window; see verbs.MW.RKey
	c     *C.struct_ibv_mw // memory window of libibverbs; nil after Close
	qp    *qp              // queue pair to which the last bind was posted, or nil
}

// checkWindows returns a *verbs.FeatureError if the device has no memory windows of type
// 2B.
func (d *device) checkWindows() error {
	if d.caps.MemoryWindows {
		return nil
	}
	return &verbs.FeatureError{Feature: "memory windows", Reason: errors.New("the device has none of type 2B")}
}

// lastOpcode returns the largest opcode that the device supports.
func (d *device) lastOpcode() verbs.Opcode {
	if d.caps.MemoryWindows {
		return verbs.OpSendInv
	}
	return verbs.OpFetchAdd
}

// AllocMW creates a memory window of type 2.
//
// Implements: ibv_alloc_mw(3).
func (p *pd) AllocMW() (verbs.MW, error) {
	const op = "alloc MW"
	if err := p.dev.checkWindows(); err != nil {
		return nil, operr.Wrap(op, err)
	}
	if err := p.users.add(); err != nil {
		return nil, operr.Wrap(op, err)
	}
	c, err := C.ibv_alloc_mw(p.c, C.IBV_MW_TYPE_2)
	if c == nil {
		p.users.remove()
		return nil, createError(op, err)
	}
	w := &mw{pd: p, c: c}
	w.key.Store(uint32(c.rkey))
	return w, nil
}

func (w *mw) PD() verbs.PD { return w.pd }
func (w *mw) RKey() uint32 { return w.key.Load() }

// Close destroys the window, even if it is bound.
//
// Implements: ibv_dealloc_mw(3).
func (w *mw) Close() error {
	return operr.Wrap("close MW", w.users.close(func() error {
		w.pd.windows.Lock()
		defer w.pd.windows.Unlock()
		if w.c != nil {
			if err := verbsError("close MW", int32(C.ibv_dealloc_mw(w.c))); err != nil {
				return err
			}
			w.c = nil
		}
		w.leaveQP()
		w.pd.users.remove()
		return nil
	}))
}

// leaveQP removes the window from its queue pair. The caller holds pd.windows.
func (w *mw) leaveQP() {
	if w.qp != nil {
		delete(w.qp.windows, w)
		w.qp = nil
	}
}

// addBind puts a checked bind into the batch.
func (s *sendQueue) addBind(wr *verbs.SendWR) error {
	w, isWindow := wr.Bind.MW.(*mw)
	m, isRegion := wr.Bind.MR.(*mr)
	if !isWindow || !isRegion || w.pd != s.qp.pd || m.pd != s.qp.pd {
		return verbs.ErrForeign
	}
	if err := m.users.whileOpen(func() error { return nil }); err != nil {
		return err
	}
	window, err := s.qp.takeWindow(w)
	if err != nil {
		return err
	}
	s.binds = true
	s.reqs = append(s.reqs, sendReq{
		id:         wrID(s.tag, s.places.occupy(wr.ID)),
		remoteAddr: wr.Bind.Addr,
		compareAdd: wr.Bind.Length,
		swap:       uint64(uintptr(unsafe.Pointer(m.c))),
		ah:         window,
		rkey:       wr.RKey,
		imm:        uint32(wr.Bind.Access),
		opcode:     uint8(wr.Opcode),
		flags:      uint8(wr.Flags),
	})
	return nil
}

// takeWindow makes a window one of the queue pair's windows. It returns the address of
// its struct ibv_mw, or ErrClosed.
func (q *qp) takeWindow(w *mw) (uint64, error) {
	q.pd.windows.Lock()
	defer q.pd.windows.Unlock()
	if w.c == nil {
		return 0, verbs.ErrClosed
	}
	if w.qp != q {
		w.leaveQP()
		if q.windows == nil {
			q.windows = make(map[*mw]struct{})
		}
		q.windows[w], w.qp = struct{}{}, q
	}
	return uint64(uintptr(unsafe.Pointer(w.c))), nil
}

// storeKeys stores the keys of the windows that the accepted requests bind.
func storeKeys(wrs []verbs.SendWR) {
	for i := range wrs {
		if wrs[i].Opcode == verbs.OpBindMW {
			wrs[i].Bind.MW.(*mw).key.Store(wrs[i].RKey)
		}
	}
}

// renewWindows is called before a queue pair is destroyed. It replaces each window of the
// queue pair by a new window of the device, which is not bound. Otherwise a bound window
// would stay bound to a queue pair that does not exist, and rxe would destroy the queue
// pair while it is still referenced. If the device can not allocate a new window, later
// binds fail with ErrClosed.
//
// Implements: ibv_dealloc_mw(3), ibv_alloc_mw(3).
func (q *qp) renewWindows() {
	q.pd.windows.Lock()
	defer q.pd.windows.Unlock()
	for w := range q.windows {
		w.leaveQP()
		if C.ibv_dealloc_mw(w.c) != 0 {
			continue
		}
		if w.c = C.ibv_alloc_mw(q.pd.c, C.IBV_MW_TYPE_2); w.c != nil {
			w.key.Store(uint32(w.c.rkey))
		}
	}
}
