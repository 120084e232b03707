package reactor

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A window is a memory window of a connection: a key for a part of a Region, which only
// the peer of this connection can use.
type window struct {
	mw    verbs.MW
	state windowState
	key   uint32     // key that the last bind has given the window
	use   *regionUse // use of the region that the window shows; nil if the window is free
	// outstanding is the number of outstanding requests that name the window.
	outstanding int
	bind        verbs.MWBind // arguments of the last bind
	next        *window      // next free window
}

// A windowState says whether the peer can use a window.
type windowState uint8

const (
	// windowFree: the window shows nothing. Conn.Show leads to windowShown.
	windowFree windowState = iota
	// windowShown: a bind was staged. Conn.Hide leads to windowHiding. A message of the peer
	// that invalidates the key leads to windowFree. Closing the region or the connection
	// closes the window.
	windowShown
	// windowHiding: a local invalidation was staged. Its completion leads to windowFree.
	windowHiding
)

// A windowSet has the windows of a connection. The zero value is empty.
type windowSet struct {
	// byIndex has all windows by the upper 24 bits of their keys, which do not change
	// before the queue pair is closed. It is nil if the connection never had a window.
	byIndex map[uint32]*window
	free    *window // list of the free windows
}

// get returns the window whose last key was key, or nil.
func (s *windowSet) get(key uint32) *window {
	if w := s.byIndex[key>>8]; w != nil && w.key == key {
		return w
	}
	return nil
}

// add adds a new window, and puts it on the free list.
func (s *windowSet) add(mw verbs.MW) *window {
	if s.byIndex == nil {
		s.byIndex = make(map[uint32]*window)
	}
	w := &window{mw: mw, key: mw.RKey(), next: s.free}
	s.byIndex[w.key>>8], s.free = w, w
	return w
}

// setFree ends the use of the region, and puts the window on the free list.
func (s *windowSet) setFree(w *window) {
	use := w.use
	w.state, w.use, w.bind = windowFree, nil, verbs.MWBind{}
	w.next, s.free = s.free, w
	use.end()
}

// Show lets the peer of this connection use a part of a Region, and returns the address
// and the key for the peer. No other peer can use the key. The Region needs
// verbs.AccessMWBind, and also verbs.AccessLocalWrite unless the peer may only read. It needs no
// remote rights. The parameter access has the rights of the peer: one or more of
// verbs.AccessRemoteRead, verbs.AccessRemoteWrite and verbs.AccessRemoteAtomic.
//
// Later messages of the connection can tell the peer the key at once. The peer can use
// the key until one of these happens:
//
//   - Hide of this connection: when OnCompletion reports it
//   - a message of the peer with OpOptions.Invalidate: when OnMessage gets it
//   - the end of the connection: when OnClose is called
//   - Region.Close: when it returns
//
// Show takes a place in the send queue until it is confirmed. A connection can show
// Config.Transport.MaxWindows parts at a time; with more the error matches verbs.ErrNoResources. On
// a device without memory windows, it matches verbs.ErrNotSupported. A part is refused if
// Region.Remote refuses it because it needs two keys. The other errors are those of
// Write. Soft-RoCE does not enforce all of this: see README.md of the package rdmacore.
// Source: ibv_alloc_mw(3).
func (c *Conn) Show(p Piece, access verbs.Access) (Remote, error) {
	c.loop.owner.check()
	if err := c.checkShow(&p, access); err != nil {
		return Remote{}, err
	}
	u := &p.Region.uses[c.loop.index]
	reg, err := u.on(c.device.domain)
	if err != nil {
		return Remote{}, operr.Wrap("show memory", err)
	}
	part, at, n := reg.Find(p.Offset, p.Length)
	if n < p.Length {
		return Remote{}, refuseShow("length", p.Length, n, "the registration ends before")
	}
	w, err := c.freeWindow()
	if err != nil {
		return Remote{}, operr.Wrap("show memory", err)
	}
	c.sends.windows.free, w.next = w.next, nil
	w.state, w.use, w.key = windowShown, u, verbs.IncRKey(w.key)
	w.bind = verbs.MWBind{MW: w.mw, MR: part.MR, Addr: part.Addr + uint64(at), Length: uint64(p.Length), Access: access}
	u.underWay++
	wr := c.acceptWindow(w, verbs.OpBindMW, &noOptions, reportNever)
	wr.Bind = &w.bind
	return Remote{Addr: w.bind.Addr, RKey: w.key}, nil
}

// Hide makes a key of Show, Remote.RKey, invalid. When OnCompletion reports the operation, with
// verbs.OpLocalInv in Op.Code, the peer can not use the memory any more. With
// OpOptions.Quiet, the peer can not use the memory any more when a later operation is
// reported.
//
// The program must not call Hide for a key that the peer may give back itself, with
// OpOptions.Invalidate. If both do so at the same time, the connection ends. If the
// peer uses the key afterwards, the connection ends too. If the key is not shown on this
// connection, the error matches verbs.ErrState. The other errors are those of Send.
func (c *Conn) Hide(key uint32, o *OpOptions) error {
	c.loop.owner.check()
	o = o.orNone()
	if err := o.checkOneSided(verbs.OpLocalInv); err != nil {
		return err
	}
	if err := c.checkSend(0); err != nil {
		return err
	}
	w := c.sends.windows.get(key)
	if w == nil || w.state != windowShown {
		return errNotShown
	}
	w.state = windowHiding
	c.acceptWindow(w, verbs.OpLocalInv, o, o.reportOp())
	return nil
}

// errNotShown is the error of Hide for a key that is not shown.
var errNotShown = operr.Wrap("hide memory", stateError("the key is not shown"))

// checkShow returns an error if Show can not begin with these arguments.
func (c *Conn) checkShow(p *Piece, access verbs.Access) error {
	if err := c.checkSend(0); err != nil {
		return err
	}
	if err := c.device.checkWindows(); err != nil {
		return operr.Wrap("show memory", err)
	}
	if err := p.check(c, verbs.OpBindMW); err != nil {
		return err
	}
	has := p.Region.access
	switch {
	case p.Length == 0:
		return refuseShow("length", 0, 0, "must be at least 1")
	case access == 0 || access&^remoteRights != 0:
		return refuseShow("access", int(access), int(remoteRights), "must be remote access rights")
	case has&verbs.AccessMWBind == 0:
		return refuseShow("region access", int(has), 0, "AccessMWBind is missing")
	case access&^verbs.AccessRemoteRead != 0 && has&verbs.AccessLocalWrite == 0:
		return refuseShow("region access", int(has), 0, "AccessLocalWrite is missing")
	}
	return nil
}

func refuseShow(field string, value, limit int, reason string) error {
	return operr.Wrap("show memory", &verbs.ParamError{Field: field, Value: int64(value), Limit: int64(limit), Reason: reason})
}

// checkWindows returns a *verbs.FeatureError if the device has no memory windows.
func (d *loopDevice) checkWindows() error {
	if d.dev.Caps().MemoryWindows {
		return nil
	}
	return &verbs.FeatureError{Feature: "memory windows", Reason: errors.New("the device does not have them")}
}

// freeWindow returns a free window, which is still on the free list. It makes a window if
// there is none.
func (c *Conn) freeWindow() (*window, error) {
	if c.sends.windows.free != nil {
		return c.sends.windows.free, nil
	}
	if limit := c.loop.cfg.Transport.MaxWindows; len(c.sends.windows.byIndex) >= limit {
		return nil, asNoResources(&verbs.ParamError{
			Field: "windows", Value: int64(limit) + 1, Limit: int64(limit), Reason: "Config.Transport.MaxWindows",
		})
	}
	mw, err := c.device.pd().AllocMW()
	if err != nil {
		return nil, asNoResources(err)
	}
	return c.sends.windows.add(mw), nil
}

// acceptWindow stages a bind or a local invalidation. It stores the key of the window in
// sendRequest.bytes.
func (c *Conn) acceptWindow(w *window, code verbs.Opcode, o *OpOptions, report reportWhen) *verbs.SendWR {
	wr, r := c.acceptOp(code, o, report)
	wr.RKey = w.key
	r.kind, r.bytes = requestWindow, w.key
	w.outstanding++
	return wr
}

// requestDone handles the end of a bind or a local invalidation with the given key. The
// parameter err is the result of the request. After an error the connection ends, and
// closeAll closes the window.
func (s *windowSet) requestDone(code verbs.Opcode, key uint32, err error) error {
	w := s.byIndex[key>>8]
	w.outstanding--
	switch {
	case err != nil:
	case code == verbs.OpLocalInv:
		s.setFree(w)
	case w.outstanding == 0 && w.use != nil && w.use.closed:
		return s.close(w)
	}
	return nil
}

// givenBack handles a key that the peer has invalidated. It reports whether the key was
// shown.
func (s *windowSet) givenBack(key uint32) bool {
	w := s.get(key)
	if w == nil || w.state == windowFree {
		return false
	}
	// In the state windowHiding, a local invalidation is outstanding. It will fail and end
	// the connection.
	if w.state == windowShown {
		s.setFree(w)
	}
	return true
}

// close closes a window without an outstanding request. The device makes the key invalid.
func (s *windowSet) close(w *window) error {
	err := w.mw.Close()
	delete(s.byIndex, w.key>>8)
	if use := w.use; use != nil {
		w.use = nil
		use.end()
	}
	return err
}

// closeOf closes the windows that show a region. Windows with an outstanding request are
// closed when the request has completed.
func (s *windowSet) closeOf(u *regionUse) (err error) {
	for _, w := range s.byIndex {
		if w.use == u && w.outstanding == 0 {
			err = firstError(err, s.close(w))
		}
	}
	return err
}

// closeAll closes all windows after the queue pair was closed.
func (s *windowSet) closeAll() (err error) {
	for _, w := range s.byIndex {
		err = firstError(err, s.close(w))
	}
	*s = windowSet{}
	return err
}
