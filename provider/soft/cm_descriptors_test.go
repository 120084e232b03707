//go:build linux

package soft

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// askCount is the private data of a request that asks for the counter
// no_descriptors_err. The server answers with a REJ that has the value as private data.
const askCount = "how many?"

// When a call fails with EMFILE or ENFILE, resource.Retry calls a function to make room.
// If the function succeeds, the call is repeated.
func TestRetryOutOfDescriptors(t *testing.T) {
	for _, c := range []struct {
		err   error
		room  bool
		calls int
	}{
		{nil, true, 1},
		{unix.EAGAIN, true, 1},
		{unix.EMFILE, true, 2},
		{unix.ENFILE, true, 2},
		{resource.Wrap(unix.ENFILE), true, 2},
		{unix.ENFILE, false, 1},
	} {
		calls := 0
		err := resource.Retry(func() error {
			calls++
			if calls > 1 {
				return nil
			}
			return c.err
		}, func() bool { return c.room })
		require.Equal(t, c.calls, calls, "%v", c)
		if c.calls > 1 {
			require.NoError(t, err)
		} else {
			require.Equal(t, c.err, err)
		}
	}
}

// peerFewDescriptors is the function of a peer process. It listens with only 20 free
// descriptors, and accepts as many connections as it can.
func peerFewDescriptors(t *testing.T, _ string) {
	s := newParty(t)
	l := s.Listen(cm.TCP, "127.0.0.1:0", 0)
	peerproc.LimitDescriptors(t, peerproc.OpenDescriptors(t)+20)
	peerproc.Say(l.LocalAddr().String())
	for {
		ev := s.Next()
		id, typ, asked := ev.ID, ev.Type, string(ev.Param.PrivateData) == askCount
		require.NoError(t, ev.Ack())
		switch {
		case typ == cm.ConnectRequest && asked:
			n := countsOf(t, s.p.dev)["no_descriptors_err"]
			require.NoError(t, id.Reject(fmt.Appendf(nil, "%d", n)))
			require.NoError(t, id.Close())
		case typ == cm.ConnectRequest:
			s.CreateQP(id)
			require.NoError(t, id.Accept(nil), "an admitted client can be accepted")
		case typ == cm.Disconnected:
			s.End(id)
		}
	}
}

// dialed dials an address, and returns the connected ID. If the peer lacks resources,
// dialed returns nil.
func dialed(s *party, at netip.AddrPort) *cm.ID {
	s.T.Helper()
	id := s.Connecting(cm.TCP, at, nil)
	ev := s.Next()
	typ, err := ev.Type, ev.Err
	require.Same(s.T, id, ev.ID)
	require.NoError(s.T, ev.Ack())
	if typ == cm.Established {
		return id
	}
	require.ErrorIs(s.T, err, verbs.ErrNoResources)
	require.ErrorIs(s.T, err, cm.ErrRefused)
	return nil
}

// A listener without free descriptors refuses new clients, but its connections still
// work. Later it accepts clients again.
func TestListenerOutOfDescriptors(t *testing.T) {
	s := newHostParty(t)
	line, kill := peerproc.Start(t, "few-descriptors", "")
	at := netip.MustParseAddrPort(line())
	var ids []*cm.ID
	for id := dialed(s, at); id != nil; id = dialed(s, at) {
		ids = append(ids, id)
	}
	require.Greater(t, len(ids), 3)
	for range 5 {
		require.Nil(t, dialed(s, at))
	}
	for _, id := range ids {
		works(t, s, id.QP())
	}

	for _, id := range ids[:2] {
		s.End(id)
	}
	for dialed(s, at) == nil {
		// The server closes the descriptors of the two ended connections a little later.
		// Until then, it refuses clients.
	}
	count := s.Connecting(cm.TCP, at, &cm.ConnParam{PrivateData: []byte(askCount)})
	for count.State() == cm.StateConnecting {
		ev := s.Next()
		var told *cm.RejectError
		if ev.ID == count {
			require.ErrorAs(t, ev.Err, &told)
			require.NotEmpty(t, told.PrivateData)
			require.NotEqual(t, "0", string(told.PrivateData))
		}
		require.NoError(t, ev.Ack())
	}
	works(t, s, ids[2].QP())
	kill()
}

// peerFewToDial is the function of a peer process. It dials an address repeatedly, each
// time with a lower limit of descriptors.
func peerFewToDial(t *testing.T, address string) {
	s := newParty(t)
	used := peerproc.OpenDescriptors(t)
	failed := 0
	// Some dials succeed although more descriptors are open than allowed. The kernel
	// checks only that the number of a new descriptor is below the limit.
	for room := 8; room >= -8; room-- {
		peerproc.LimitDescriptors(t, used+room)
		err := dialOnce(s, netip.MustParseAddrPort(address))
		if err != nil {
			failed++
		}
		if err != nil && !errors.Is(err, verbs.ErrNoResources) {
			peerproc.Say(fmt.Sprintf("with room for %d: %v", room, err))
		}
	}
	require.Greater(t, failed, 2)
	require.Less(t, failed, 17)
	peerproc.Say("done")
	peerproc.Linger()
}

// dialOnce dials an address and closes the connection. It returns the error of the dial.
func dialOnce(s *party, at netip.AddrPort) error {
	id, err := s.Channel.NewID(cm.TCP)
	if err != nil {
		return err
	}
	defer s.End(id)
	if err := id.ResolveAddr(netip.AddrPort{}, at, safety); err != nil {
		return err
	}
	for {
		ev := s.Next()
		from, typ, err := ev.ID, ev.Type, ev.Err
		require.NoError(s.T, ev.Ack())
		switch {
		case from != id:
		case err != nil:
			return err
		case typ == cm.AddrResolved:
			if err := id.ResolveRoute(safety); err != nil {
				return err
			}
		case typ == cm.RouteResolved:
			s.CreateQP(id)
			if err := id.Connect(nil); err != nil {
				return err
			}
		case typ == cm.Established:
			return nil
		}
	}
}

// A dial without a free descriptor fails with verbs.ErrNoResources.
func TestDialOutOfDescriptors(t *testing.T) {
	s := newHostParty(t)
	l := s.Listen(cm.TCP, "127.0.0.1:0", 0)
	line, kill := peerproc.Start(t, "few-to-dial", l.LocalAddr().String())
	done := make(chan string, 1)
	go func() { done <- line() }()
	for {
		select {
		case said := <-done:
			require.Equal(t, "done", said)
			kill()
			return
		default:
		}
		ev, ok, err := s.Channel.Next()
		require.NoError(t, err)
		if !ok {
			fds := []unix.PollFd{{Fd: int32(s.Channel.FD()), Events: unix.POLLIN}}
			_, _ = unix.Poll(fds, 100)
			continue
		}
		id, typ := ev.ID, ev.Type
		require.NoError(t, ev.Ack())
		switch typ {
		case cm.ConnectRequest:
			s.CreateQP(id)
			_ = id.Accept(nil) // Accept fails if the peer process has already closed the connection.
			s.EndLater(id)
		case cm.Disconnected:
			require.NoError(t, id.Disconnect(nil))
		}
	}
}

// A message of connection management with an unexpected descriptor violates the
// protocol. If an expected descriptor can not be received, the error is
// verbs.ErrNoResources.
func TestUnexpectedDescriptor(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unixsock.CloseAll(pair[:])
	send := func() error { return unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(pair[0]), nil, 0) }
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	require.NoError(t, send())
	require.NoError(t, send())
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: limit.Max}))
	var b [8]byte
	_, _, unexpected := unixsock.Receive(pair[1], b[:], 0)
	_, _, expected := unixsock.Receive(pair[1], b[:], 1)
	require.ErrorIs(t, unexpected, verbs.ErrProtocol)
	require.ErrorIs(t, expected, verbs.ErrNoResources)
}

// peerUnknownHost is the function of a peer process without free descriptors. CreateAH
// needs one, so it fails.
func peerUnknownHost(t *testing.T, _ string) {
	s := newParty(t)
	peerproc.ExhaustDescriptors(t)
	_, err := s.PD.CreateAH(&verbs.AHAttr{Port: 1, DestGID: verbs.GIDFromAddr(netip.MustParseAddr("203.0.113.7"))})
	require.ErrorIs(t, err, verbs.ErrNoResources, "the path is unknown, so the wire path is not assumed")
	peerproc.Say("done")
	peerproc.Linger()
}

// CreateAH fails without a free descriptor. It needs one to choose between the local and
// the wire path.
func TestAHOutOfDescriptors(t *testing.T) {
	line, kill := peerproc.Start(t, "unknown-host", "")
	require.Equal(t, "done", line())
	kill()
}

// peerNoDescriptors is the function of a peer process. It makes objects of a device when
// few descriptors or none are free.
func peerNoDescriptors(t *testing.T, _ string) {
	// completion vectors of the CQ, which has manual progress, and of the completion
	// channel, which has automatic progress
	const manual, auto = 0, 1
	d := openDevice(t, &Config{Path: PathLocal})
	peerproc.LimitDescriptors(t, peerproc.OpenDescriptors(t)+20)
	taken := peerproc.TakeDescriptors(t)
	objects := map[string]func() (interface{ Close() error }, error){
		"event channel": func() (interface{ Close() error }, error) { return d.cm.OpenChannel() },
		"completion channel": func() (interface{ Close() error }, error) {
			return d.CreateCompChannel(&verbs.CompChannelAttr{Vector: auto, Progress: verbs.ProgressAuto})
		},
		"CQ": func() (interface{ Close() error }, error) {
			return d.CreateCQ(&verbs.CQAttr{Depth: 1, Vector: manual, Progress: verbs.ProgressManual})
		},
	}
	for name, open := range objects {
		failed := 0
		for {
			o, err := open()
			if err == nil {
				require.NoError(t, o.Close())
				break
			}
			failed++
			require.ErrorIs(t, err, verbs.ErrNoResources, name)
			require.NoError(t, unix.Close(taken[0]))
			taken = taken[1:]
		}
		require.Positive(t, failed, name)
		taken = append(taken, peerproc.TakeDescriptors(t)...)
	}
	peerproc.Say("done")
	peerproc.Linger()
}

// When no descriptor is free, a call that creates an object with descriptors fails with
// verbs.ErrNoResources. A failed call must close the descriptors that it has opened.
// Otherwise peerNoDescriptors could not create an object that needs several descriptors.
func TestObjectsOutOfDescriptors(t *testing.T) {
	line, kill := peerproc.Start(t, "no-descriptors", "")
	require.Equal(t, "done", line())
	kill()
}
