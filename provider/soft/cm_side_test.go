//go:build linux

package soft

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// safety is the timeout of all waits in tests. It is longer than any wait of a test that
// passes.
const safety = 30 * time.Second

// A party is one side of a connection in a test: a device with an event channel, a
// protection domain and a completion queue.
type party struct {
	t  *testing.T
	p  *Provider
	ch *cm.EventChannel
	tc *channel // transport channel of ch
	pd verbs.PD
	cq verbs.CQ
}

func newParty(t *testing.T) *party {
	t.Helper()
	return openParty(t, &Config{Vectors: 1})
}

func openParty(t *testing.T, cfg *Config) *party {
	t.Helper()
	before := leak.Snapshot()
	t.Cleanup(func() {
		if !t.Failed() {
			before.Check(t)
		}
	})
	p, err := Open(cfg)
	require.NoError(t, err)
	s := &party{t: t, p: p}
	s.ch, err = cm.OpenChannel(s)
	require.NoError(t, err)
	s.pd, err = p.dev.AllocPD()
	require.NoError(t, err)
	s.cq, err = p.dev.CreateCQ(&verbs.CQAttr{Depth: 1024})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			// The checks are skipped after a failure: closing would fail too, and hide
			// the cause.
			return
		}
		require.NoError(t, s.cq.Close())
		require.NoError(t, s.pd.Close())
		require.NoError(t, s.ch.Close())
		require.NoError(t, p.Close())
	})
	return s
}

// OpenChannel makes the party a cm.Transport that stores its last channel in tc.
func (s *party) OpenChannel() (cm.TransportChannel, error) {
	tc, err := s.p.OpenChannel()
	s.tc, _ = tc.(*channel)
	return tc, err
}

// id makes an ID, which is closed at the end of the test.
func (s *party) id(ps cm.PortSpace) *cm.ID {
	s.t.Helper()
	id, err := s.ch.NewID(ps)
	require.NoError(s.t, err)
	s.endLater(id)
	return id
}

func (s *party) endLater(id *cm.ID) {
	s.t.Cleanup(func() {
		if !s.t.Failed() {
			s.end(id)
		}
	})
}

func (s *party) end(id *cm.ID) {
	s.t.Helper()
	require.NoError(s.t, id.CloseQP())
	require.NoError(s.t, id.Close())
}

func (s *party) createQP(id *cm.ID) verbs.QP {
	s.t.Helper()
	require.NoError(s.t, id.CreateQP(s.pd, &verbs.QPInitAttr{
		Type: id.PortSpace().QPType(), SendCQ: s.cq, RecvCQ: s.cq,
		Caps: verbs.QPCaps{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 64},
	}))
	return id.QP()
}

// listen makes a listener at an address. Port 0 means any port.
func (s *party) listen(ps cm.PortSpace, at string, backlog int) *cm.ID {
	s.t.Helper()
	id := s.id(ps)
	require.NoError(s.t, id.Bind(netip.MustParseAddrPort(at)))
	require.NoError(s.t, id.Listen(backlog))
	return id
}

// resolved makes an ID with the address and the route to dst resolved.
func (s *party) resolved(ps cm.PortSpace, dst netip.AddrPort) *cm.ID {
	s.t.Helper()
	id := s.id(ps)
	s.resolve(id, dst)
	return id
}

func (s *party) resolve(id *cm.ID, dst netip.AddrPort) {
	s.t.Helper()
	require.NoError(s.t, id.ResolveAddr(netip.AddrPort{}, dst, time.Second))
	s.want(cm.AddrResolved, id)
	require.NoError(s.t, id.ResolveRoute(time.Second))
	s.want(cm.RouteResolved, id)
}

// connecting makes an ID with a queue pair, and sends the request.
func (s *party) connecting(ps cm.PortSpace, dst netip.AddrPort, param *cm.ConnParam) *cm.ID {
	s.t.Helper()
	id := s.resolved(ps, dst)
	s.createQP(id)
	require.NoError(s.t, id.Connect(param))
	return id
}

// next waits for an event. The caller acknowledges it.
func (s *party) next() *cm.Event { s.t.Helper(); return nextEvent(s.t, s.ch) }

func nextEvent(t *testing.T, ch *cm.EventChannel) *cm.Event {
	t.Helper()
	for limit := time.Now().Add(safety); time.Now().Before(limit); {
		ev, ok, err := ch.Next()
		require.NoError(t, err)
		if ok {
			return &ev
		}
		awaitReadable(t, ch.FD())
	}
	require.Fail(t, "no event")
	return nil
}

func awaitReadable(t *testing.T, fd int) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(safety.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		require.NoError(t, err)
		require.Positive(t, n, "descriptor stays unreadable")
		return
	}
}

// awaitCount waits until a counter of the device has a value. No event may arrive in the
// meantime.
func (s *party) awaitCount(name string, value uint64) {
	s.t.Helper()
	for countsOf(s.t, s.p.dev)[name] < value {
		awaitReadable(s.t, s.ch.FD())
		s.quiet()
	}
}

// want waits for an event of a type about an ID, and acknowledges it.
func (s *party) want(typ cm.EventType, id *cm.ID) cm.Event {
	s.t.Helper()
	ev := s.next()
	require.Equal(s.t, typ, ev.Type, "status %d: %v", ev.Status, ev.Err)
	require.Same(s.t, id, ev.ID)
	require.NoError(s.t, ev.Ack())
	return *ev
}

// request waits for a request to a listener. It closes the ID of the request at the end
// of the test.
func (s *party) request(listener *cm.ID) (*cm.ID, cm.Event) {
	s.t.Helper()
	ev := s.next()
	require.Equal(s.t, cm.ConnectRequest, ev.Type)
	require.Same(s.t, listener, ev.Listener)
	require.NoError(s.t, ev.Ack())
	s.endLater(ev.ID)
	return ev.ID, *ev
}

// quiet requires that no event is queued.
func (s *party) quiet() {
	s.t.Helper()
	ev, ok, err := s.ch.Next()
	require.NoError(s.t, err)
	if ok {
		require.Fail(s.t, "unexpected event", "%v, status %d", ev.Type, ev.Status)
	}
}

// connected makes a listener of the server, and a connection with queue pairs to it.
func connected(t *testing.T, client, server *party) (active, passive *cm.ID) {
	t.Helper()
	l := server.listen(cm.TCP, "127.0.0.1:0", 0)
	return connectTo(client, server, l)
}

func connectTo(client, server *party, l *cm.ID) (active, passive *cm.ID) {
	client.t.Helper()
	active = client.connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ = server.request(l)
	server.createQP(passive)
	require.NoError(server.t, passive.Accept(nil))
	client.want(cm.Established, active)
	server.want(cm.Established, passive)
	return active, passive
}
