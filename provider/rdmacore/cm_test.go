//go:build cgo && linux

package rdmacore_test

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestByApplication(t *testing.T) {
	zeros, some := make([]byte, 148), []byte{147: 1}
	for _, c := range []struct {
		typ    cm.EventType
		status int
		data   []byte
		want   bool
	}{
		{cm.Rejected, 28, some, true},
		{cm.Rejected, 28, zeros, false},
		{cm.Rejected, 28, nil, false},
		{cm.Rejected, 8, some, false},
		{cm.Unreachable, 2, some, true},
		{cm.Unreachable, 2, zeros, false},
		{cm.Unreachable, 1, some, false},
		{cm.Established, 0, some, false},
	} {
		require.Equal(t, c.want, rdmacore.ByApplication(&cm.TransportEvent{Type: c.typ, Status: c.status, PrivateData: c.data}))
	}
}

// padded returns private data as it arrives: padded with zeros to the size of its field.
func padded(data []byte, field int) []byte {
	return append(bytes.Clone(data), make([]byte, field-len(data))...)
}

func TestConnectionParameters(t *testing.T) {
	r := newRig(t)
	a, request := r.request(r.listen(cm.TCP, r.addr), &cm.ConnParam{
		PrivateData: []byte("let me in"), ResponderResources: 3, InitiatorDepth: 2, FlowControl: true, RetryCount: 5, RNRRetryCount: 4,
	})
	r.Equal(padded([]byte("let me in"), 56), request.param.PrivateData)
	r.Equal(uint8(2), request.param.ResponderResources, "the peer's initiator depth")
	r.Equal(uint8(3), request.param.InitiatorDepth)
	r.True(request.param.FlowControl)
	r.Equal(uint8(5), request.param.RetryCount)
	r.Equal(uint8(4), request.param.RNRRetryCount)
	r.Equal(a.qp.Num(), request.param.QPNum)
	r.Equal(r.addr, request.id.RemoteAddr().Addr())
	r.Equal(r.addr, request.id.LocalAddr().Addr())
	r.Equal(a.id.LocalAddr(), request.id.RemoteAddr())
	r.Equal(r.dev, request.id.Device())
	r.Equal(uint8(1), request.id.Port())

	b := r.equip(request.id, verbs.ProgressManual)
	r.NoError(b.id.Accept(&cm.ConnParam{PrivateData: []byte("welcome"), ResponderResources: 2, InitiatorDepth: 1, RNRRetryCount: 6}))
	answer := r.await(a.id, cm.Established)
	r.Equal(padded([]byte("welcome"), 196), answer.param.PrivateData)
	r.Equal(uint8(1), answer.param.ResponderResources)
	r.Equal(uint8(2), answer.param.InitiatorDepth)
	r.await(b.id, cm.Established)

	for _, e := range []*end{a, b} {
		attr, err := e.qp.Query()
		r.NoError(err)
		r.Equal(verbs.StateRTS, attr.State)
		r.Equal(uint8(cm.DefaultMinRNRTimer), attr.MinRNRTimer, "not 655 ms")
		r.Equal(uint8(5), attr.RetryCount)
	}
}

func TestRefusals(t *testing.T) {
	r := newRig(t)
	listener := r.listen(cm.TCP, r.addr)
	for _, c := range []struct {
		name          string
		refuse        func(*cm.ID) error
		data          []byte
		byApplication bool
	}{
		{"with data", func(id *cm.ID) error { return id.Reject([]byte("no")) }, []byte("no"), true},
		{"without data", func(id *cm.ID) error { return id.Reject(nil) }, nil, false},
		{"without resources", (*cm.ID).RejectNoResources, nil, false},
		{"without answer", (*cm.ID).Close, nil, false},
	} {
		a, request := r.request(listener, nil)
		r.NoError(c.refuse(request.id), c.name)
		var refused *cm.RejectError
		r.ErrorAs(r.await(a.id, cm.Rejected).err, &refused, c.name)
		r.Equal(cm.RejectConsumer, refused.Reason, c.name)
		r.Equal(padded(c.data, 148), refused.PrivateData, c.name)
		r.Equal(c.byApplication, refused.ByApplication, c.name)
		r.Equal(verbs.StateError, a.qp.State(), c.name)
	}
}

func TestNobodyListens(t *testing.T) {
	r := newRig(t)
	listener := r.listen(cm.TCP, r.addr)
	port := listener.LocalAddr().Port()
	r.NoError(listener.Close())
	a := r.equip(r.resolve(cm.TCP, port), verbs.ProgressAuto)
	r.NoError(a.id.Connect(nil))
	var refused *cm.RejectError
	r.ErrorAs(r.await(a.id, cm.Rejected).err, &refused)
	r.Equal(cm.RejectInvalidServiceID, refused.Reason)
	r.False(refused.ByApplication)
}

func TestLookupRefused(t *testing.T) {
	r := newRig(t)
	a, request := r.request(r.listen(cm.UDP, r.addr), &cm.ConnParam{PrivateData: []byte("where?")})
	r.Equal(padded([]byte("where?"), 180), request.param.PrivateData)
	r.NoError(request.id.Reject([]byte("not here")))
	var refused *cm.RejectError
	r.ErrorAs(r.await(a.id, cm.Unreachable).err, &refused)
	r.Equal(cm.SIDRReject, refused.SIDR)
	r.Equal(padded([]byte("not here"), 136), refused.PrivateData)
	r.True(refused.ByApplication)
}

// If a queue pair was not created on the ID, librdmacm can send only cm.DefaultQKey to
// the peer. So Accept must refuse every other Q_Key.
func TestLookupWithoutQP(t *testing.T) {
	r := newRig(t)
	a, request := r.request(r.listen(cm.UDP, r.addr), nil)
	r.ErrorIs(request.id.Accept(&cm.ConnParam{QPNum: a.qp.Num(), QKey: 5}), verbs.ErrNotSupported)
}

func TestWildcard(t *testing.T) {
	r := newRig(t)
	listener := r.listen(cm.TCP, netip.IPv4Unspecified())
	r.Nil(listener.Device())
	_, request := r.request(listener, nil)
	r.Equal(r.dev, request.id.Device())
	r.Equal(r.addr, request.id.LocalAddr().Addr())
}

func TestAddressErrors(t *testing.T) {
	r := newRig(t)
	listener := r.listen(cm.TCP, r.addr)
	r.ErrorIs(r.newID(cm.TCP).Bind(listener.LocalAddr()), cm.ErrAddrInUse)
	r.ErrorIs(r.newID(cm.TCP).Bind(netip.MustParseAddrPort("203.0.113.77:0")), cm.ErrAddrNotAvailable)
	loopback := netip.MustParseAddrPort("127.0.0.1:7000")
	r.ErrorIs(r.newID(cm.TCP).Bind(loopback), cm.ErrAddrNotAvailable)
	r.ErrorIs(r.newID(cm.TCP).ResolveAddr(netip.AddrPort{}, loopback, waitLimit), cm.ErrAddrNotAvailable)
	r.ErrorIs(r.newID(cm.TCP).ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("203.0.113.77:7000"), waitLimit), cm.ErrNoRoute)
}

func TestOptions(t *testing.T) {
	r := newRig(t)
	first, second := r.newID(cm.TCP), r.newID(cm.TCP)
	for _, id := range []*cm.ID{first, second} {
		r.NoError(id.SetReuseAddr(true))
		r.NoError(id.SetAFOnly(true))
		r.NoError(id.SetTOS(32))
		r.NoError(id.SetAckTimeout(18))
		r.NoError(id.SetMinRNRTimer(0))
	}
	r.NoError(first.Bind(netip.AddrPortFrom(r.addr, 0)))
	r.NoError(second.Bind(first.LocalAddr()), "both set REUSEADDR")

	// The queue pair must have the ACK timeout and the RNR timer of the ID.
	listener := r.listen(cm.TCP, r.addr)
	r.NoError(second.ResolveAddr(netip.AddrPort{}, listener.LocalAddr(), waitLimit))
	r.await(second, cm.AddrResolved)
	r.NoError(second.ResolveRoute(waitLimit))
	r.await(second, cm.RouteResolved)
	a := r.equip(second, verbs.ProgressAuto)
	r.NoError(a.id.Connect(nil))
	b := r.equip(r.await(listener, cm.ConnectRequest).id, verbs.ProgressAuto)
	r.closing(b.id)
	r.NoError(b.id.Accept(nil))
	r.await(a.id, cm.Established)
	attr, err := a.qp.Query()
	r.NoError(err)
	r.Equal(uint8(18), attr.Timeout)
	r.Zero(attr.MinRNRTimer)
	r.NoError(b.id.CloseQP())
}

// Notify establishes a connection on the passive side when the answer of the active side
// is late.
func TestNotify(t *testing.T) {
	r := newRig(t)
	listener, slow := r.listen(cm.TCP, r.addr), r.channel()
	a := r.equip(r.resolve(cm.TCP, listener.LocalAddr().Port()), verbs.ProgressAuto)
	r.NoError(a.id.Migrate(slow))
	r.NoError(a.id.Connect(nil))
	request := r.await(listener, cm.ConnectRequest)
	r.closing(request.id)
	b := r.equip(request.id, verbs.ProgressAuto)
	r.NoError(b.id.Accept(nil))
	r.NoError(b.id.Notify(verbs.AsyncCommEst))
	r.ErrorIs(b.id.Notify(verbs.AsyncCommEst), verbs.ErrState)
	r.await(b.id, cm.Established)

	r.awaitOn(slow, a.id, cm.Established)
	r.NoError(a.id.Disconnect(nil))
	r.await(b.id, cm.Disconnected)
	r.NoError(b.id.Disconnect(nil))
	r.awaitOn(slow, a.id, cm.Disconnected)
	r.NoError(a.id.CloseQP())
	r.NoError(a.id.Close())
}

// A connection request can be accepted on another channel.
func TestMigrate(t *testing.T) {
	r := newRig(t)
	other := r.channel()
	a, request := r.request(r.listen(cm.TCP, r.addr), nil)
	r.NoError(request.id.Migrate(other))
	b := r.equip(request.id, verbs.ProgressManual)
	r.NoError(b.id.Accept(nil))
	r.await(a.id, cm.Established)
	r.awaitOn(other, b.id, cm.Established)
	r.NoError(a.id.Disconnect(nil))
	r.awaitOn(other, b.id, cm.Disconnected)
	r.NoError(b.id.Disconnect(nil))
	r.await(a.id, cm.Disconnected)
	r.NoError(b.id.CloseQP())
	r.NoError(b.id.Close())
}

// Closing an ID cancels its pending connection, and never waits.
func TestCloseWhileConnecting(t *testing.T) {
	r := newRig(t)
	listener := r.listen(cm.TCP, r.addr)
	a, request := r.request(listener, nil)
	r.NoError(a.id.CloseQP())
	r.NoError(a.id.Close())
	r.NoError(listener.Close())
	r.NoError(request.id.Close())
}

// A queue pair can be closed while another goroutine fetches events.
func TestCloseWhileFetching(t *testing.T) {
	r := newRig(t)
	listener := r.listen(cm.TCP, r.addr)
	// The IDs of the active side are on this channel.
	side := r.channel()
	for range 20 {
		a := r.equip(r.resolve(cm.TCP, listener.LocalAddr().Port()), verbs.ProgressAuto)
		r.NoError(a.id.Migrate(side))
		r.NoError(a.id.Connect(nil))
		b := r.equip(r.await(listener, cm.ConnectRequest).id, verbs.ProgressAuto)
		r.NoError(b.id.Accept(nil))

		stop, stopped := make(chan struct{}), make(chan error, 1)
		go func() { stopped <- drain(side, stop) }()
		r.NoError(a.id.CloseQP())
		close(stop)
		r.NoError(<-stopped)
		r.NoError(a.id.Close())
		r.NoError(b.id.CloseQP())
		for b.id.Close() != nil {
			r.fetch(r.events)
		}
	}
}

func drain(c *cm.EventChannel, stop <-chan struct{}) error {
	for {
		ev, ok, err := c.Next()
		if err != nil {
			return err
		}
		if ok {
			if err := ev.Ack(); err != nil {
				return err
			}
		}
		select {
		case <-stop:
			if !ok {
				return nil
			}
		default:
		}
	}
}
