//go:build linux

package qp

import "github.com/rdmaloop/rdmaloop/verbs"

// This file binds memory windows to a queue pair, unbinds them, and finds the memory
// that a peer's request names.

// checkLocalRequest checks a request OpBindMW or OpLocalInv when it is posted.
func (q *QP) checkLocalRequest(wr *verbs.SendWR) error {
	if err := wr.CheckLocal(); err != nil || wr.Opcode != verbs.OpBindMW {
		return err
	}
	w, ok := wr.Bind.MW.(*mw)
	m, isRegion := wr.Bind.MR.(*mr)
	if !ok || !isRegion || w.pd != q.pd || m.pd != q.pd {
		return verbs.ErrForeign
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
