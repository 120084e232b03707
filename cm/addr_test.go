package cm_test

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
)

func addr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// TestListenAddr checks what users type. Package netaddr tests all cases.
func TestListenAddr(t *testing.T) {
	for text, want := range map[string][2]string{
		":7471":          {"[::]:7471", "127.0.0.1:7471"},
		"localhost:7471": {"127.0.0.1:7471", "127.0.0.1:7471"},
		"[::]:7471":      {"[::]:7471", "[::1]:7471"},
	} {
		at, err := cm.ListenAddr(t.Context(), text)
		require.NoError(t, err)
		to, err := cm.DialAddr(t.Context(), text)
		require.NoError(t, err)
		require.Equal(t, want, [2]string{at.String(), to.String()}, text)
	}
	_, err := cm.ListenAddr(t.Context(), "localhost")
	require.EqualError(t, err, "address localhost: missing port in address")
	_, err = cm.DialAddr(t.Context(), "localhost")
	require.EqualError(t, err, "address localhost: missing port in address")
}

func TestBind(t *testing.T) {
	for _, s := range []string{"192.0.2.1:7174", "0.0.0.0:0", "[::]:1", "[2001:db8::1]:0", "[fe80::1%eth0]:5", "127.0.0.1:9"} {
		p := newPeer(t, cm.TCP)
		require.NoError(t, p.id.Bind(addr(s)))
		require.Equal(t, addr(s), p.fake.src)
		require.Equal(t, cm.StateBound, p.id.State())
	}
	p := newPeer(t, cm.TCP)
	require.NoError(t, p.id.Bind(addr("[::ffff:192.0.2.1]:80")))
	require.Equal(t, addr("192.0.2.1:80"), p.fake.src)
}

func TestBindChecks(t *testing.T) {
	p := newPeer(t, cm.TCP)
	requireParam(t, p.id.Bind(netip.AddrPort{}), "address", 0, 0)
	requireParam(t, p.id.Bind(addr("224.0.0.1:1")), "address", 0, 0)
	requireParam(t, p.id.Bind(addr("[ff02::1]:1")), "address", 0, 0)
	require.Empty(t, p.fake.calls)
	require.NoError(t, p.id.Bind(local))
}

// TestListen tests what rdma_listen(3) says, except for the transport's part.
func TestListen(t *testing.T) {
	t.Run("L1: requests come after listen", func(t *testing.T) {
		l := listening(t, cm.TCP)
		ev, child := l.request(cm.MessageParam{}, nil)
		require.Equal(t, cm.ConnectRequest, ev.Type)
		require.Equal(t, cm.StateRequested, child.id.State())
		require.Equal(t, cm.StateListening, l.id.State())
	})
	t.Run("L3: the ID must have been bound", func(t *testing.T) {
		p := newPeer(t, cm.TCP)
		require.Error(t, p.id.Listen(1))
		require.Equal(t, cm.StateIdle, p.id.State())
	})
	t.Run("L6: no backlog means the default", func(t *testing.T) {
		for given, want := range map[int]int{-1: 1024, 0: 1024, 1: 1, 5000: 5000} {
			p := reach(t, cm.TCP, cm.StateBound)
			require.NoError(t, p.id.Listen(given))
			require.Equal(t, want, p.fake.backlog)
		}
	})
}

func TestResolveAddr(t *testing.T) {
	p := newPeer(t, cm.TCP)
	require.NoError(t, p.id.ResolveAddr(addr("[::ffff:192.0.2.1]:0"), addr("[::ffff:192.0.2.2]:7471"), time.Second))
	require.Equal(t, addr("192.0.2.1:0"), p.fake.src)
	require.Equal(t, addr("192.0.2.2:7471"), p.fake.dst)
	require.Equal(t, time.Second, p.fake.timeout)

	// The ID is bound by the first call. So the second call passes no source address to the
	// transport.
	p.deliver(cm.AddrError)
	require.Equal(t, cm.StateBound, p.id.State())
	require.NoError(t, p.id.ResolveAddr(local, remote, time.Second))
	require.Equal(t, netip.AddrPort{}, p.fake.src)
}

func TestResolveAddrChecks(t *testing.T) {
	var none netip.AddrPort
	v6 := addr("[2001:db8::2]:1")
	p := newPeer(t, cm.TCP)
	requireParam(t, p.id.ResolveAddr(none, none, time.Second), "address", 0, 0)
	requireParam(t, p.id.ResolveAddr(none, addr("0.0.0.0:1"), time.Second), "destination", 0, 0)
	require.ErrorContains(t, p.id.ResolveAddr(none, addr("0.0.0.0:1"), time.Second),
		": destination: 0.0.0.0 is the wildcard address, which is not a destination")
	requireParam(t, p.id.ResolveAddr(none, addr("[::]:1"), time.Second), "destination", 0, 0)
	requireParam(t, p.id.ResolveAddr(none, addr("224.0.0.1:1"), time.Second), "destination", 0, 0)
	requireParam(t, p.id.ResolveAddr(local, v6, time.Second), "source", 0, 0)
	requireParam(t, p.id.ResolveAddr(v6, remote, time.Second), "source", 0, 0)
	requireParam(t, p.id.ResolveAddr(netip.AddrPortFrom(netip.Addr{}, 1), remote, time.Second), "source", 0, 0)
	requireParam(t, p.id.ResolveAddr(addr("224.0.0.1:1"), remote, time.Second), "address", 0, 0)
	require.Empty(t, p.fake.calls)

	u := newPeer(t, cm.UDP)
	require.NoError(t, u.id.ResolveAddr(none, addr("224.0.0.1:1"), time.Second), "a datagram lookup accepts a multicast address")
}

func TestResolveTimeouts(t *testing.T) {
	const limit = math.MaxInt32 * time.Millisecond
	a, r := newPeer(t, cm.TCP), reach(t, cm.TCP, cm.StateAddrResolved)
	for bad, passed := range map[time.Duration]time.Duration{0: 1, -1: 1, limit + 1: limit} {
		requireParam(t, a.id.ResolveAddr(netip.AddrPort{}, remote, bad), "timeout", int64(bad), int64(passed))
		requireParam(t, r.id.ResolveRoute(bad), "timeout", int64(bad), int64(passed))
	}
	require.Empty(t, a.fake.calls)
	require.Empty(t, r.fake.calls)
	require.NoError(t, a.id.ResolveAddr(netip.AddrPort{}, remote, limit))
	require.NoError(t, r.id.ResolveRoute(1))
	require.Equal(t, time.Duration(1), r.fake.timeout)
}

// TestServes checks that ID.Serves returns the bound address if the transport returns
// nil.
func TestServes(t *testing.T) {
	for state := cm.StateIdle; state < cm.StateClosed; state++ {
		id := reach(t, cm.TCP, state).id
		if state != cm.StateListening {
			require.Nil(t, id.Serves(), "%v", state)
			continue
		}
		require.Equal(t, []cm.ServedAddr{{Addr: id.LocalAddr()}}, id.Serves())
		require.NoError(t, id.Close())
		require.Nil(t, id.Serves())
	}
}

// TestServesByTransport checks that ID.Serves returns the transport's addresses.
func TestServesByTransport(t *testing.T) {
	p := reach(t, cm.TCP, cm.StateListening)
	p.fake.serves = []cm.ServedAddr{{Path: "wire", Addr: netip.MustParseAddrPort("10.0.0.1:7")}}
	require.Equal(t, p.fake.serves, p.id.Serves())
}
