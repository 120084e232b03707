//go:build linux

package cmside

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Safety is the timeout of all waits. Only a failing test reaches it.
const Safety = 30 * time.Second

// A Side is one side of a connection, with the objects that a test needs. If a method
// fails, it ends the test. Only the test's goroutine may call the methods.
type Side struct {
	T       *testing.T
	Channel *cm.EventChannel
	PD      verbs.PD
	CQ      verbs.CQ
}

// Open opens a side on the device dev. The side is closed at the end of the test, unless
// the test has failed: closing could then hide the cause.
func Open(t *testing.T, transport cm.Transport, dev verbs.Device) *Side {
	t.Helper()
	s := &Side{T: t}
	var err error
	s.Channel, err = cm.OpenChannel(transport)
	require.NoError(t, err)
	s.PD, err = dev.AllocPD()
	require.NoError(t, err)
	s.CQ, err = dev.CreateCQ(&verbs.CQAttr{Depth: 1024})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		require.NoError(t, s.CQ.Close())
		require.NoError(t, s.PD.Close())
		require.NoError(t, s.Channel.Close())
	})
	return s
}

// ID creates an ID, which is closed at the end of the test.
func (s *Side) ID(ps cm.PortSpace) *cm.ID {
	s.T.Helper()
	id, err := s.Channel.NewID(ps)
	require.NoError(s.T, err)
	s.EndLater(id)
	return id
}

// EndLater calls End for the ID at the end of the test, unless the test has failed.
func (s *Side) EndLater(id *cm.ID) {
	s.T.Cleanup(func() {
		if !s.T.Failed() {
			s.End(id)
		}
	})
}

// End closes an ID and its queue pair.
func (s *Side) End(id *cm.ID) {
	s.T.Helper()
	require.NoError(s.T, id.CloseQP())
	require.NoError(s.T, id.Close())
}

// CreateQP creates the queue pair of an ID.
func (s *Side) CreateQP(id *cm.ID) verbs.QP {
	s.T.Helper()
	require.NoError(s.T, id.CreateQP(s.PD, &verbs.QPInitAttr{
		Type: id.PortSpace().QPType(), SendCQ: s.CQ, RecvCQ: s.CQ,
		Caps: verbs.QPCaps{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 64},
	}))
	return id.QP()
}

// Listen creates an ID that listens on the given address. Port 0 means any free port.
func (s *Side) Listen(ps cm.PortSpace, at string, backlog int) *cm.ID {
	s.T.Helper()
	id := s.ID(ps)
	require.NoError(s.T, id.Bind(netip.MustParseAddrPort(at)))
	require.NoError(s.T, id.Listen(backlog))
	return id
}

// Resolved creates an ID and resolves the address dst and the route to it.
func (s *Side) Resolved(ps cm.PortSpace, dst netip.AddrPort) *cm.ID {
	s.T.Helper()
	id := s.ID(ps)
	s.Resolve(id, dst)
	return id
}

// Resolve resolves the address dst and the route to it.
func (s *Side) Resolve(id *cm.ID, dst netip.AddrPort) {
	s.T.Helper()
	require.NoError(s.T, id.ResolveAddr(netip.AddrPort{}, dst, time.Second))
	s.Want(cm.AddrResolved, id)
	require.NoError(s.T, id.ResolveRoute(time.Second))
	s.Want(cm.RouteResolved, id)
}

// Connecting creates an ID with a queue pair and sends a connection request to dst.
func (s *Side) Connecting(ps cm.PortSpace, dst netip.AddrPort, param *cm.ConnParam) *cm.ID {
	s.T.Helper()
	id := s.Resolved(ps, dst)
	s.CreateQP(id)
	require.NoError(s.T, id.Connect(param))
	return id
}

// Next waits for an event. The caller acknowledges it.
func (s *Side) Next() *cm.Event { s.T.Helper(); return NextEvent(s.T, s.Channel) }

// Want waits for the next event and acknowledges it. The event must have the given type
// and ID.
func (s *Side) Want(typ cm.EventType, id *cm.ID) cm.Event {
	s.T.Helper()
	ev := s.Next()
	require.Equal(s.T, typ, ev.Type, "status %d: %v", ev.Status, ev.Err)
	require.Same(s.T, id, ev.ID)
	require.NoError(s.T, ev.Ack())
	return *ev
}

// Request waits for a connection request to the listener. It returns the new ID and the
// event. The ID is closed at the end of the test.
func (s *Side) Request(listener *cm.ID) (*cm.ID, cm.Event) {
	s.T.Helper()
	ev := s.Next()
	require.Equal(s.T, cm.ConnectRequest, ev.Type)
	require.Same(s.T, listener, ev.Listener)
	require.NoError(s.T, ev.Ack())
	s.EndLater(ev.ID)
	return ev.ID, *ev
}

// Quiet checks that no event is waiting.
func (s *Side) Quiet() {
	s.T.Helper()
	ev, ok, err := s.Channel.Next()
	require.NoError(s.T, err)
	if ok {
		require.Fail(s.T, "unexpected event", "%v, status %d", ev.Type, ev.Status)
	}
}

// NextEvent waits for the next event of a channel. The caller acknowledges it.
func NextEvent(t *testing.T, ch *cm.EventChannel) *cm.Event {
	t.Helper()
	for limit := time.Now().Add(Safety); time.Now().Before(limit); {
		ev, ok, err := ch.Next()
		require.NoError(t, err)
		if ok {
			return &ev
		}
		AwaitReadable(t, ch.FD())
	}
	require.Fail(t, "no event")
	return nil
}

// AwaitReadable waits until a descriptor is readable.
func AwaitReadable(t *testing.T, fd int) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(Safety.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		require.NoError(t, err)
		require.Positive(t, n, "descriptor stays unreadable")
		return
	}
}

// Connect connects the client to the listener of the server. It returns the IDs of both
// sides. Each has a queue pair.
func Connect(client, server *Side, l *cm.ID) (active, passive *cm.ID) {
	client.T.Helper()
	active = client.Connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ = server.Request(l)
	server.CreateQP(passive)
	require.NoError(server.T, passive.Accept(nil))
	client.Want(cm.Established, active)
	server.Want(cm.Established, passive)
	return active, passive
}

// Disconnect disconnects, beginning with the client. It waits for the events Disconnected
// and TimewaitExit of both sides.
func Disconnect(client *Side, active *cm.ID, server *Side, passive *cm.ID) {
	client.T.Helper()
	require.NoError(client.T, active.Disconnect(nil))
	server.Want(cm.Disconnected, passive)
	require.NoError(client.T, passive.Disconnect(nil))
	server.Want(cm.TimewaitExit, passive)
	client.Want(cm.Disconnected, active)
	client.Want(cm.TimewaitExit, active)
}

// Readable reports whether a descriptor is readable now.
func Readable(t testing.TB, fd int) bool {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	require.NoError(t, err)
	return n > 0
}

// ConnectingFrom is Connecting with a source address and without parameters.
func (s *Side) ConnectingFrom(ps cm.PortSpace, from string, dst netip.AddrPort) *cm.ID {
	s.T.Helper()
	id := s.ResolvedFrom(ps, from, dst)
	s.CreateQP(id)
	require.NoError(s.T, id.Connect(nil))
	return id
}

// ResolvedFrom is Resolved with a source address.
func (s *Side) ResolvedFrom(ps cm.PortSpace, from string, dst netip.AddrPort) *cm.ID {
	s.T.Helper()
	id := s.ID(ps)
	require.NoError(s.T, id.ResolveAddr(netip.AddrPortFrom(netip.MustParseAddr(from), 0), dst, time.Second))
	s.Want(cm.AddrResolved, id)
	require.NoError(s.T, id.ResolveRoute(time.Second))
	s.Want(cm.RouteResolved, id)
	return id
}

// OwnQP creates an RC queue pair that belongs to no ID. It is in RESET, and Drive moves
// it to other states.
func (s *Side) OwnQP() verbs.QP {
	s.T.Helper()
	qp, err := s.PD.CreateQP(&verbs.QPInitAttr{
		Type: verbs.QPTypeRC, SendCQ: s.CQ, RecvCQ: s.CQ,
		Caps: verbs.QPCaps{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 64},
	})
	require.NoError(s.T, err)
	s.T.Cleanup(func() {
		if !s.T.Failed() {
			require.NoError(s.T, qp.Close())
		}
	})
	return qp
}

// Drive moves a queue pair without an ID through the given states. The attributes come
// from ID.InitQPAttr.
func Drive(t *testing.T, id *cm.ID, qp verbs.QP, states ...verbs.QPState) {
	t.Helper()
	for _, state := range states {
		attr, mask, err := id.InitQPAttr(state)
		require.NoError(t, err)
		require.NoError(t, qp.Modify(&attr, mask), "to %v", state)
	}
}
