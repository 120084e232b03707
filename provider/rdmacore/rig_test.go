//go:build cgo && linux

package rdmacore_test

import (
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// waitLimit is the time after which a test fails instead of waiting. Arbitrary.
const waitLimit = 30 * time.Second

// A rig has a device and an event channel for one test, and closes them at the end.
type rig struct {
	*require.Assertions
	t        *testing.T
	addr     netip.Addr
	provider cm.Provider
	dev      verbs.Device
	pd       verbs.PD
	events   *cm.EventChannel
	seen     []seenEvent
}

// A seenEvent has the values of an event that is already acknowledged.
type seenEvent struct {
	owner, id *cm.ID
	typ       cm.EventType
	status    int
	err       error
	param     cm.MessageParam
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Assertions: require.New(t), t: t, addr: testAddr(t), provider: open(t)}
	r.closing(r.provider)
	r.dev = r.owner()
	pd, err := r.dev.AllocPD()
	r.NoError(err)
	r.closing(pd)
	r.pd = pd
	r.events = r.channel()
	return r
}

// owner returns the device that has the test's address.
func (r *rig) owner() verbs.Device {
	r.t.Helper()
	devices, err := r.provider.Devices()
	r.NoError(err)
	for _, dev := range devices {
		port, err := dev.Port(1)
		r.NoError(err)
		if slices.Contains(port.GIDs, verbs.GIDFromAddr(r.addr)) {
			return dev
		}
	}
	r.FailNow("no device", "none owns %v", r.addr)
	return nil
}

func (r *rig) closing(c interface{ Close() error }) {
	r.t.Cleanup(func() { require.NoError(r.t, c.Close()) })
}

func (r *rig) channel() *cm.EventChannel {
	r.t.Helper()
	events, err := cm.OpenChannel(r.provider)
	r.NoError(err)
	r.closing(events)
	return events
}

func (r *rig) newID(ps cm.PortSpace) *cm.ID {
	r.t.Helper()
	id, err := r.events.NewID(ps)
	r.NoError(err)
	r.closing(id)
	return id
}

func (r *rig) listen(ps cm.PortSpace, addr netip.Addr) *cm.ID {
	r.t.Helper()
	id := r.newID(ps)
	r.NoError(id.Bind(netip.AddrPortFrom(addr, 0)))
	r.NoError(id.Listen(8))
	r.NotZero(id.LocalAddr().Port())
	return id
}

// resolve returns an ID that is ready to connect to a port.
func (r *rig) resolve(ps cm.PortSpace, port uint16) *cm.ID {
	r.t.Helper()
	id := r.newID(ps)
	r.NoError(id.ResolveAddr(netip.AddrPort{}, netip.AddrPortFrom(r.addr, port), waitLimit))
	r.await(id, cm.AddrResolved)
	r.NoError(id.ResolveRoute(waitLimit))
	r.await(id, cm.RouteResolved)
	r.Equal(r.dev, id.Device())
	return id
}

// until fetches events into r.seen, and stops when done() returns true.
func (r *rig) until(done func() bool, channels ...*cm.EventChannel) {
	r.t.Helper()
	for deadline := time.Now().Add(waitLimit); !done(); {
		for _, c := range channels {
			r.fetch(c)
		}
		runtime.Gosched()
		if time.Now().After(deadline) {
			r.FailNow("gave up waiting", "there were %+v", r.seen)
		}
	}
}

func (r *rig) fetch(c *cm.EventChannel) {
	r.t.Helper()
	ev, ok, err := c.Next()
	r.NoError(err)
	if !ok {
		return
	}
	s := seenEvent{owner: ev.ID, id: ev.ID, typ: ev.Type, status: ev.Status, err: ev.Err, param: ev.Param}
	if ev.Listener != nil {
		s.owner = ev.Listener
	}
	r.NoError(ev.Ack())
	r.seen = append(r.seen, s)
}

// await returns the next event of an ID, which must have the given type.
func (r *rig) await(id *cm.ID, typ cm.EventType) seenEvent {
	r.t.Helper()
	return r.awaitOn(r.events, id, typ)
}

func (r *rig) awaitOn(c *cm.EventChannel, id *cm.ID, typ cm.EventType) seenEvent {
	r.t.Helper()
	mine := func(s seenEvent) bool { return s.owner == id }
	r.until(func() bool { return slices.ContainsFunc(r.seen, mine) }, c)
	i := slices.IndexFunc(r.seen, mine)
	s := r.seen[i]
	r.seen = slices.Delete(r.seen, i, i+1)
	r.Equal(typ, s.typ, "%v, status %d, %v", s.typ, s.status, s.err)
	return s
}

// An end is one side of a connection.
type end struct {
	r  *rig
	id *cm.ID
	qp verbs.QP
	cq verbs.CQ
	mr verbs.MR
}

const (
	depth   = 64
	memSize = 64 << 10
)

func (r *rig) equip(id *cm.ID, progress verbs.Progress) *end {
	r.t.Helper()
	e := &end{r: r, id: id}
	var err error
	e.cq, err = r.dev.CreateCQ(&verbs.CQAttr{Depth: 1024, Progress: progress})
	r.NoError(err)
	r.closing(e.cq)
	e.mr, err = r.pd.Alloc(&verbs.AllocAttr{Size: memSize, Access: verbs.AccessAll})
	r.NoError(err)
	r.closing(e.mr)
	caps := verbs.QPCaps{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: min(32, r.dev.Attr().MaxInline)}
	r.NoError(id.CreateQP(r.pd, &verbs.QPInitAttr{Type: id.PortSpace().QPType(), SendCQ: e.cq, RecvCQ: e.cq, Caps: caps}))
	r.t.Cleanup(func() { require.NoError(r.t, id.CloseQP()) })
	e.qp = id.QP()
	return e
}

// request connects to a listener. It returns the active end and the request, which is
// not answered yet.
func (r *rig) request(listener *cm.ID, param *cm.ConnParam) (active *end, request seenEvent) {
	r.t.Helper()
	active = r.equip(r.resolve(listener.PortSpace(), listener.LocalAddr().Port()), verbs.ProgressManual)
	r.NoError(active.id.Connect(param))
	request = r.await(listener, cm.ConnectRequest)
	r.closing(request.id)
	return active, request
}

// pair returns two connected ends.
func (r *rig) pair() (a, b *end) {
	r.t.Helper()
	a, request := r.request(r.listen(cm.TCP, r.addr), nil)
	b = r.equip(request.id, verbs.ProgressManual)
	r.NoError(b.id.Accept(nil))
	r.await(a.id, cm.Established)
	r.await(b.id, cm.Established)
	return a, b
}

// take polls until n requests have completed, and requires that all have succeeded.
func (e *end) take(n int) []verbs.WC {
	e.r.t.Helper()
	wcs := make([]verbs.WC, n)
	got := 0
	e.r.until(func() bool {
		m, err := e.cq.Poll(wcs[got:])
		e.r.NoError(err)
		got += m
		return got == n
	})
	for i := range wcs {
		e.r.NoError(wcs[i].Err())
	}
	return wcs
}
