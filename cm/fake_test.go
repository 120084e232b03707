package cm_test

import (
	"cmp"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// fakeTransport is a transport whose events come from the test. It panics if a channel
// or ID is used after Close.
type fakeTransport struct {
	fail error // error that OpenChannel returns

	mu       sync.Mutex // guards all channels and IDs
	channels []*fakeChannel
}

func (f *fakeTransport) OpenChannel() (cm.TransportChannel, error) {
	if f.fail != nil {
		return nil, f.fail
	}
	c := &fakeChannel{transport: f}
	f.channels = append(f.channels, c)
	return c, nil
}

type fakeChannel struct {
	transport *fakeTransport
	events    []cm.TransportEvent
	ids       []*fakeID
	fail      error // error that Next, NewID and Close return
	closed    int
	fd        int              // result of FD; 0 means 42
	fdCalls   chan struct{}    // channel that gets a value at each call of FD; may be nil
	setReady  func(ready bool) // function that makes fd readable or not readable; may be nil
}

func (c *fakeChannel) FD() int {
	c.transport.mu.Lock()
	defer c.transport.mu.Unlock()
	if c.closed > 0 {
		panic("FD was called after Close")
	}
	if c.fdCalls != nil {
		c.fdCalls <- struct{}{}
	}
	return cmp.Or(c.fd, 42)
}

func (c *fakeChannel) Next(ev *cm.TransportEvent) (bool, error) {
	ok, err := c.pop(ev)
	// Another goroutine may try to close the channel now, but Close must wait.
	runtime.Gosched()
	c.transport.mu.Lock()
	defer c.transport.mu.Unlock()
	if c.closed > 0 {
		panic("the channel was closed during Next")
	}
	return ok, err
}

func (c *fakeChannel) pop(ev *cm.TransportEvent) (bool, error) {
	c.transport.mu.Lock()
	defer c.transport.mu.Unlock()
	if c.setReady != nil && len(c.events) == 0 {
		c.setReady(false)
	}
	if c.fail != nil || len(c.events) == 0 {
		return false, c.fail
	}
	*ev = c.events[0]
	c.events = c.events[1:]
	return true, nil
}

func (c *fakeChannel) NewID(cm.PortSpace) (cm.TransportID, error) {
	if c.fail != nil {
		return nil, c.fail
	}
	return c.newID(), nil
}

func (c *fakeChannel) newID() *fakeID {
	c.transport.mu.Lock()
	defer c.transport.mu.Unlock()
	id := &fakeID{channel: c, device: theDevice}
	c.ids = append(c.ids, id)
	return id
}

func (c *fakeChannel) Close() error {
	c.transport.mu.Lock()
	defer c.transport.mu.Unlock()
	c.closed++
	return c.fail
}

func (c *fakeChannel) push(ev cm.TransportEvent) {
	c.transport.mu.Lock()
	defer c.transport.mu.Unlock()
	c.events = append(c.events, ev)
	if c.setReady != nil {
		c.setReady(true)
	}
}

// A fakeID records its calls.
type fakeID struct {
	channel *fakeChannel
	device  verbs.Device // nil if the ID has no device
	fail    error        // error that all calls return
	calls   []string
	// parameters of the last Connect or Accept
	param     cm.MessageParam
	data      []byte // private data of the last Reject or Disconnect
	reason    cm.RejectReason
	src, dst  netip.AddrPort
	timeout   time.Duration
	backlog   int
	option    cm.Option
	value     int             // value of the last SetOption or Notify
	peer      *cm.Credentials // credentials of the peer, or nil
	serves    []cm.ServedAddr
	destroyed bool
}

func (f *fakeID) call(name string) error {
	f.channel.transport.mu.Lock()
	defer f.channel.transport.mu.Unlock()
	if f.destroyed {
		panic("call of " + name + " on a destroyed ID")
	}
	f.calls = append(f.calls, name)
	return f.fail
}

func (f *fakeID) Bind(addr netip.AddrPort) error {
	f.src = addr
	return f.call("bind")
}

func (f *fakeID) Listen(backlog int) error {
	f.backlog = backlog
	return f.call("listen")
}

func (f *fakeID) ResolveAddr(src, dst netip.AddrPort, timeout time.Duration) error {
	f.src, f.dst, f.timeout = src, dst, timeout
	return f.call("resolve address")
}

func (f *fakeID) ResolveRoute(timeout time.Duration) error {
	f.timeout = timeout
	return f.call("resolve route")
}

func (f *fakeID) CreateQP(pd verbs.PD, _ *verbs.QPInitAttr) (verbs.QP, error) {
	if err := f.call("create QP"); err != nil {
		return nil, err
	}
	return &fakeQP{}, nil
}

func (f *fakeID) Connect(p *cm.MessageParam) error {
	f.param = *p
	f.param.PrivateData = append([]byte(nil), p.PrivateData...)
	return f.call("connect")
}

func (f *fakeID) Accept(p *cm.MessageParam) error {
	f.param = *p
	f.param.PrivateData = append([]byte(nil), p.PrivateData...)
	return f.call("accept")
}

func (f *fakeID) Reject(reason cm.RejectReason, data []byte) error {
	f.reason = reason
	f.data = append([]byte(nil), data...)
	return f.call("reject")
}

func (f *fakeID) Establish() error { return f.call("establish") }

func (f *fakeID) Disconnect(data []byte) error {
	f.data = append([]byte(nil), data...)
	return f.call("disconnect")
}

func (f *fakeID) Notify(event verbs.AsyncEventType) error {
	f.value = int(event)
	return f.call("notify")
}

func (f *fakeID) InitQPAttr(s verbs.QPState) (verbs.QPAttr, verbs.QPAttrMask, error) {
	return verbs.QPAttr{State: s}, verbs.AttrState, f.call("init QP attributes")
}

func (f *fakeID) Migrate(to cm.TransportChannel) error {
	if err := f.call("migrate"); err != nil {
		return err
	}
	target := to.(*fakeChannel)
	f.channel.transport.mu.Lock()
	defer f.channel.transport.mu.Unlock()
	var stay []cm.TransportEvent
	for _, ev := range f.channel.events {
		if ev.ID == cm.TransportID(f) || ev.Listener == cm.TransportID(f) {
			target.events = append(target.events, ev)
		} else {
			stay = append(stay, ev)
		}
	}
	f.channel.events = stay
	f.channel = target
	return nil
}

func (f *fakeID) SetOption(o cm.Option, value int) error {
	f.option, f.value = o, value
	return f.call("option")
}

func (f *fakeID) Device() verbs.Device      { return f.device }
func (f *fakeID) Port() uint8               { return 1 }
func (f *fakeID) LocalAddr() netip.AddrPort { return local }
func (f *fakeID) RemoteAddr() netip.AddrPort {
	return remote
}

func (f *fakeID) Serves() []cm.ServedAddr { return f.serves }

func (f *fakeID) Credentials() (cm.Credentials, bool) {
	_ = f.call("credentials")
	if f.peer == nil {
		return cm.Credentials{}, false
	}
	return *f.peer, true
}

func (f *fakeID) Destroy() error {
	err := f.call("destroy")
	f.channel.transport.mu.Lock()
	defer f.channel.transport.mu.Unlock()
	f.destroyed = true
	return err
}

// A fakeDevice has only the methods Attr and Caps.
type fakeDevice struct {
	verbs.Device
	caps verbs.Caps
}

func (d *fakeDevice) Caps() verbs.Caps { return d.caps }

func (*fakeDevice) Attr() verbs.DeviceAttr {
	return verbs.DeviceAttr{MaxQPRdAtom: 16, MaxQPInitRdAtom: 8}
}

type fakePD struct {
	verbs.PD
	device verbs.Device
}

func (p *fakePD) Device() verbs.Device { return p.device }

type fakeCQ struct{ verbs.CQ }

type fakeSRQ struct{ verbs.SRQ }

const fakeQPNum = 0x123456

type fakeQP struct {
	verbs.QP
	fail error
}

func (*fakeQP) Num() uint32    { return fakeQPNum }
func (q *fakeQP) Close() error { return q.fail }

var (
	local     = netip.MustParseAddrPort("192.0.2.1:7174")
	remote    = netip.MustParseAddrPort("192.0.2.2:7471")
	theDevice = &fakeDevice{}
	thePD     = &fakePD{device: theDevice}
)

// qpAttr returns valid attributes for a queue pair.
func qpAttr(ps cm.PortSpace) *verbs.QPInitAttr {
	cq := &fakeCQ{}
	return &verbs.QPInitAttr{Type: ps.QPType(), SendCQ: cq, RecvCQ: cq}
}

// A peer is an ID and its channel, with the fakes behind them.
type peer struct {
	t                testing.TB
	ps               cm.PortSpace
	channel          *cm.EventChannel
	id               *cm.ID
	fake             *fakeID // the fake implementation that id uses
	transportChannel *fakeChannel
}

func open(t testing.TB) (*cm.EventChannel, *fakeChannel) {
	t.Helper()
	transport := &fakeTransport{}
	c, err := cm.OpenChannel(transport)
	require.NoError(t, err)
	return c, transport.channels[0]
}

func newPeer(t testing.TB, ps cm.PortSpace) *peer {
	t.Helper()
	c, under := open(t)
	id, err := c.NewID(ps)
	require.NoError(t, err)
	return &peer{t: t, ps: ps, channel: c, id: id, fake: under.ids[0], transportChannel: under}
}

// next returns the next event. There must be one.
func (p *peer) next() *cm.Event {
	p.t.Helper()
	ev, ok, err := p.channel.Next()
	require.NoError(p.t, err)
	require.True(p.t, ok)
	return &ev
}

func (p *peer) requireNoEvent() {
	p.t.Helper()
	ev, ok, err := p.channel.Next()
	require.NoError(p.t, err)
	require.False(p.t, ok)
	require.Zero(p.t, ev)
}

// deliver sends an event to the ID and acknowledges it.
func (p *peer) deliver(typ cm.EventType) {
	p.t.Helper()
	p.transportChannel.push(cm.TransportEvent{Type: typ, ID: p.fake})
	ev := p.next()
	require.Equal(p.t, typ, ev.Type)
	require.Same(p.t, p.id, ev.ID)
	require.NoError(p.t, ev.Ack())
}

// request sends a connection request to a listener. It returns the event and the new ID.
func (p *peer) request(param cm.MessageParam, data []byte) (*cm.Event, *peer) {
	p.t.Helper()
	child := p.transportChannel.newID()
	p.transportChannel.push(cm.TransportEvent{Type: cm.ConnectRequest, ID: child, Listener: p.fake, Param: param, PrivateData: data})
	ev := p.next()
	return ev, &peer{t: p.t, ps: p.ps, channel: p.channel, id: ev.ID, fake: child, transportChannel: p.transportChannel}
}

// listening returns a listener.
func listening(t testing.TB, ps cm.PortSpace) *peer {
	t.Helper()
	p := newPeer(t, ps)
	require.NoError(t, p.id.Bind(local))
	require.NoError(t, p.id.Listen(0))
	return p
}

// requested returns the new ID of a connection request.
func requested(t testing.TB, ps cm.PortSpace, param cm.MessageParam) *peer {
	t.Helper()
	ev, p := listening(t, ps).request(param, nil)
	require.NoError(t, ev.Ack())
	return p
}

// routed returns an active ID that is ready to connect.
func routed(t testing.TB, ps cm.PortSpace) *peer {
	t.Helper()
	p := newPeer(t, ps)
	require.NoError(t, p.id.ResolveAddr(netip.AddrPort{}, remote, time.Second))
	p.deliver(cm.AddrResolved)
	require.NoError(t, p.id.ResolveRoute(time.Second))
	p.deliver(cm.RouteResolved)
	return p
}

func (p *peer) createQP() {
	p.t.Helper()
	require.NoError(p.t, p.id.CreateQP(thePD, qpAttr(p.ps)))
}
