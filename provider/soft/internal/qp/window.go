//go:build linux

package qp

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// maxMW is how many memory windows a device can have. Arbitrary.
const maxMW = maxMR

// mw implements verbs.MW. A bound window has an entry in the mrTable of the device. The
// table's mutex guards the fields after key.
type mw struct {
	pd *pd
	// key of the last bind that was posted, or of the free window; see verbs.MW.RKey
	key    atomic.Uint32
	bound  *mr // entry in the mrTable; nil while the window is not bound
	closed bool
}

// A binding describes a bound window: its region and its queue pair.
type binding struct {
	window *mw
	region *mr // region that the window is bound to
	qp     *QP // queue pair that the window is bound to; only its peer may use the window
}

// AllocMW implements verbs.PD.
func (p *pd) AllocMW() (verbs.MW, error) {
	if p.closed.Load() {
		return nil, operr.Wrap("alloc MW", verbs.ErrClosed)
	}
	key, err := p.engine.mrs.newWindowKey()
	if err != nil {
		return nil, operr.Wrap("alloc MW", err)
	}
	p.refs.Add(1)
	w := &mw{pd: p}
	w.key.Store(key)
	return w, nil
}

// PD implements verbs.MW.
func (w *mw) PD() verbs.PD { return w.pd }

// RKey implements verbs.MW.
func (w *mw) RKey() uint32 { return w.key.Load() }

// Close implements verbs.MW.
func (w *mw) Close() error {
	t := &w.pd.engine.mrs
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	t.unbind(w)
	delete(t.windowKeys, w.key.Load()>>8)
	w.pd.refs.Add(-1)
	return nil
}

// newWindowKey returns a random key for a new window. No other window and no region has
// a key with the same upper 24 bits.
func (t *mrTable) newWindowKey() (uint32, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.windowKeys) == maxMW {
		return 0, &verbs.ParamError{Field: "memory windows", Value: maxMW + 1, Limit: maxMW}
	}
	if t.windowKeys == nil {
		t.windowKeys = make(map[uint32]struct{})
	}
	key := t.random.Uint32()
	for key>>8 == 0 || t.isWindowKey(key) || t.hasRegionLike(key) {
		key = t.random.Uint32()
	}
	t.windowKeys[key>>8] = struct{}{}
	return key, nil
}

// hasRegionLike reports whether the table has a region whose key has the same upper 24
// bits as the given key.
func (t *mrTable) hasRegionLike(key uint32) bool {
	for low := range uint32(256) {
		if t.find(key&^0xff|low) != nil {
			return true
		}
	}
	return false
}

// bind adds the entry e of a window that is being bound. It returns false if the window
// is already bound or closed, if the region is closed, or if the table is full.
func (t *mrTable) bind(e *mr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, region, q := e.window.window, e.window.region, e.window.qp
	if w.closed || w.bound != nil || region.closed.Load() || t.regions == maxMR {
		return false
	}
	t.makeRoom()
	t.put(e)
	w.bound = e
	region.windows++
	if q.windows == nil {
		q.windows = make(map[*mw]struct{})
	}
	q.windows[w] = struct{}{}
	return true
}

// unbind removes the entry of a window, and waits until remote operations on its memory
// have finished. It does nothing if the window is not bound. The caller holds mu.
func (t *mrTable) unbind(w *mw) {
	e := w.bound
	if e == nil {
		return
	}
	e.closed.Store(true)
	t.remove(e)
	for e.inUse.Load() > 0 {
		runtime.Gosched()
	}
	w.bound = nil
	delete(e.window.qp.windows, w)
	e.window.region.windows--
}

// close removes a region. It returns false if the region was closed before, and
// verbs.ErrBusy while windows are bound to the region.
func (t *mrTable) close(m *mr) (removed bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.closed.Load() {
		return false, nil
	}
	if m.windows > 0 {
		return false, fmt.Errorf("%w: memory windows are bound to the region", verbs.ErrBusy)
	}
	m.closed.Store(true)
	t.remove(m)
	return true, nil
}

// A bindRequest has the parameters of a request OpBindMW.
type bindRequest struct {
	window *mw
	region *mr
	addr   uint64
	length uint64
	access verbs.Access
}

// newBindRequest returns the parameters of a request OpBindMW that was checked. It gives
// the window its new key. Peers can use the key once the bind is executed.
func newBindRequest(wr *verbs.SendWR) bindRequest {
	b := wr.Bind
	r := bindRequest{window: b.MW.(*mw), region: b.MR.(*mr), addr: b.Addr, length: b.Length, access: b.Access}
	r.window.key.Store(wr.RKey)
	return r
}

// shownTo reports whether m is a window that is bound to the queue pair q.
func (m *mr) shownTo(q *QP) bool { return m.window != nil && m.window.qp == q }

// checkLocalRequest checks a request OpBindMW or OpLocalInv when it is posted.
func (q *QP) checkLocalRequest(wr *verbs.SendWR) error {
	if err := wr.CheckLocal(); err != nil || wr.Opcode != verbs.OpBindMW {
		return err
	}
	w, ok := wr.Bind.MW.(*mw)
	m, isRegion := wr.Bind.MR.(*mr)
	if !ok || !isRegion || w.pd != q.pd || m.pd != q.pd {
		return fmt.Errorf("%w: the window or the region is of another protection domain", verbs.ErrForeign)
	}
	t := &q.engine.mrs
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.closed || m.closed.Load() {
		return verbs.ErrClosed
	}
	return nil
}

// bind binds the window of a request to its region, and to this queue pair. It returns
// false if that is not allowed (IBTA vol. 1, 10.6.7.2).
func (q *QP) bind(r *bindRequest, key uint32) bool {
	const writes = verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic
	m := r.region
	switch {
	case m.access&verbs.AccessMWBind == 0, r.access&writes != 0 && m.access&verbs.AccessLocalWrite == 0:
		return false
	}
	// For an address below base the difference wraps, and the check fails.
	off, size := r.addr-m.base, uint64(len(m.buf))
	if off > size || r.length > size-off {
		return false
	}
	return q.engine.mrs.bind(&mr{
		buf: m.buf[off : off+r.length : off+r.length], base: r.addr, key: key, access: r.access, mayFault: m.mayFault,
		window: &binding{r.window, m, q},
	})
}

// invalidate unbinds the window with a key. It returns false unless the window is bound
// to this queue pair.
func (q *QP) invalidate(key uint32) bool {
	t := &q.engine.mrs
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.find(key)
	if e == nil || !e.shownTo(q) {
		return false
	}
	t.unbind(e.window.window)
	return true
}

// unbindWindows unbinds all windows that are bound to the queue pair.
func (q *QP) unbindWindows() {
	if q.windows == nil {
		return
	}
	t := &q.engine.mrs
	t.mu.Lock()
	defer t.mu.Unlock()
	for w := range q.windows {
		t.unbind(w)
	}
}

// acquireRemote returns the region or window that a peer's request names, and the bytes
// that the request may access. It returns nil if the request is not allowed. The memory
// stays mapped until release() is called.
func (q *QP) acquireRemote(key uint32, addr uint64, length uint32, access verbs.Access) (*mr, []byte) {
	m := q.engine.mrs.find(key)
	if m == nil || m.pd != q.pd && !m.shownTo(q) || m.access&access != access {
		return nil, nil
	}
	buf, ok := m.bytesAt(addr, length)
	if !ok {
		return nil, nil
	}
	if !m.acquire() {
		return nil, nil
	}
	return m, buf
}
