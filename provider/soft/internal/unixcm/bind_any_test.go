//go:build linux

package unixcm

import (
	"errors"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// onlyPorts limits the free ports of the party to a range. The range begins with the port
// of the ID first, and has count ports.
func (s *party) onlyPorts(first *cm.ID, count int) {
	low := int(first.LocalAddr().Port())
	s.M.FreePorts = func() (hostport.PortRange, error) { return hostport.PortRange{Low: low, High: low + count - 1}, nil }
}

// The tests below expect certain ports to be free, so they use addresses that no other
// test uses.

// TestBindAnyClashes runs in a network namespace of its own, so that no other process
// binds the ports.
func TestBindAnyClashes(t *testing.T) { peerproc.InNetworkNamespace(t, "bind-any-clashes") }

// peerBindAnyClashes checks that a bind to port 0 does not choose a port that another ID
// has on the same address or on a wildcard.
func peerBindAnyClashes(t *testing.T, _ string) {
	peerproc.LinkUp(t, "lo")
	for _, c := range []struct {
		first, second string
		afOnly        bool // value of AFONLY of the first ID
		clash         bool
	}{
		{"0.0.0.0", "127.68.0.1", false, true},
		{"::", "127.68.0.1", false, true},
		{"::", "::1", false, true},
		{"::", "::1", true, true},
		{"::", "127.68.0.1", true, false},
		{"0.0.0.0", "::1", false, false},
		{"127.68.0.1", "0.0.0.0", false, true},
		{"127.68.0.1", "::", false, true},
		{"127.68.0.1", "127.68.0.1", false, true},
		{"127.68.0.1", "127.68.0.2", false, false},
		{"0.0.0.0", "::", false, true},
	} {
		t.Run(c.first+" "+c.second, func(t *testing.T) {
			needAddr(t, c.first, c.second)
			holder, other := newParty(t), newParty(t)
			first, second := holder.ID(cm.TCP), other.ID(cm.TCP)
			require.NoError(t, first.SetAFOnly(c.afOnly))
			require.NoError(t, first.Bind(netip.AddrPortFrom(netip.MustParseAddr(c.first), 0)))
			other.onlyPorts(first, 1)
			free := netip.AddrPortFrom(netip.MustParseAddr(c.second), 0)
			if !c.clash {
				require.NoError(t, second.Bind(free))
				require.Equal(t, first.LocalAddr().Port(), second.LocalAddr().Port())
				return
			}
			require.ErrorIs(t, second.Bind(free), cm.ErrAddrNotAvailable)
			require.NoError(t, first.Close())
			require.NoError(t, second.Bind(free), "the port is free again")
		})
	}
}

// A client does not use a source port that a listener has on a wildcard.
func TestClientAvoidsWildcards(t *testing.T) {
	server, client := newParty(t), newParty(t)
	wild := server.Listen(cm.TCP, "0.0.0.0:0", 0)
	client.onlyPorts(wild, 2)
	active := client.ResolvedFrom(cm.TCP, "127.68.0.1", at("127.68.0.1", wild))
	require.Equal(t, wild.LocalAddr().Port()+1, active.LocalAddr().Port())
	reaches(server, server, wild, at("127.68.0.1", wild))
}

// If two goroutines bind the same port at the same time, at most one of them succeeds.
func TestBindRaces(t *testing.T) {
	wild, narrow := newParty(t), newParty(t)
	first := wild.ID(cm.TCP)
	require.NoError(t, first.Bind(netip.MustParseAddrPort("127.68.0.1:0")))
	narrow.onlyPorts(first, 1)
	everywhere := at("0.0.0.0", first)
	require.NoError(t, first.Close())
	for range 500 {
		ids := []*cm.ID{wild.ID(cm.TCP), narrow.ID(cm.TCP)}
		addrs := []netip.AddrPort{everywhere, netip.MustParseAddrPort("127.68.0.1:0")}
		var errs [2]error
		var done sync.WaitGroup
		for i := range ids {
			done.Go(func() { errs[i] = ids[i].Bind(addrs[i]) })
		}
		done.Wait()
		for _, err := range errs {
			require.True(t, err == nil || errors.Is(err, cm.ErrAddrNotAvailable), "%v", err)
		}
		require.False(t, errs[0] == nil && errs[1] == nil, "both IDs have the port")
		require.NoError(t, ids[0].Close())
		require.NoError(t, ids[1].Close())
	}
}

// AFONLY can be set and cleared on a bound ID (cm.ID.SetAFOnly).
func TestAFOnlyAfterBind(t *testing.T) {
	needAddr(t, "::1")
	s := newParty(t)
	six := s.ID(cm.TCP)
	require.NoError(t, six.Bind(netip.MustParseAddrPort("[::]:0")))
	require.ErrorIs(t, s.ID(cm.TCP).Bind(at("127.0.0.1", six)), cm.ErrAddrNotAvailable)
	require.NoError(t, six.SetAFOnly(true))
	four := s.ID(cm.TCP)
	require.NoError(t, four.Bind(at("127.0.0.1", six)), "the port is free on IPv4")
	require.ErrorIs(t, s.ID(cm.TCP).Bind(at("::1", six)), cm.ErrAddrNotAvailable, "the port is not free on IPv6")

	// SetAFOnly(false) fails while another ID has the same port on IPv4.
	require.ErrorIs(t, six.SetAFOnly(false), cm.ErrAddrNotAvailable)
	require.NoError(t, four.Close())
	require.NoError(t, six.SetAFOnly(false))
	require.ErrorIs(t, s.ID(cm.TCP).Bind(at("127.0.0.1", six)), cm.ErrAddrNotAvailable)

	require.NoError(t, six.SetAFOnly(true))
	require.NoError(t, six.Listen(0))
	reaches(s, s, six, at("::1", six))
	refuses(s, at("127.0.0.1", six))
	require.ErrorIs(t, six.SetAFOnly(false), verbs.ErrState, "the ID is listening")

	// The option has no effect on an ID at an IPv4 address.
	plain := s.ID(cm.TCP)
	require.NoError(t, plain.Bind(netip.MustParseAddrPort("127.0.0.1:0")))
	require.NoError(t, plain.SetAFOnly(true))
}

// If REUSEADDR is set on an ID after Bind, other IDs with REUSEADDR can bind its port.
func TestReuseAddrAfterBind(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		s := newParty(t)
		first := s.ID(cm.TCP)
		require.NoError(t, first.Bind(netip.MustParseAddrPort(addr)))
		sharing := s.ID(cm.TCP)
		require.NoError(t, sharing.SetReuseAddr(true))
		want := cm.ErrAddrInUse
		if first.LocalAddr().Addr().IsUnspecified() {
			want = cm.ErrAddrNotAvailable
		}
		require.ErrorIs(t, sharing.Bind(first.LocalAddr()), want)
		require.NoError(t, first.SetReuseAddr(true))
		require.NoError(t, first.SetReuseAddr(true))
		require.NoError(t, sharing.Bind(first.LocalAddr()))
		require.ErrorIs(t, s.ID(cm.TCP).Bind(first.LocalAddr()), want, "the third ID does not have the option")
		require.ErrorIs(t, first.SetReuseAddr(false), verbs.ErrState, "the option of a bound ID can not be cleared")

		require.NoError(t, sharing.Listen(0))
		require.ErrorIs(t, first.Listen(0), want, "another ID listens on the port")
		require.ErrorIs(t, sharing.SetReuseAddr(true), verbs.ErrState, "the ID is listening")
		reaches(s, s, sharing, at("127.0.0.1", sharing))
		require.NoError(t, sharing.Close())
		require.NoError(t, first.Listen(0))
	}
}

// IDs with REUSEADDR can also share a port that the system has chosen.
func TestReuseAddrAnyPort(t *testing.T) {
	s := newParty(t)
	first, second := s.ID(cm.TCP), s.ID(cm.TCP)
	require.NoError(t, first.SetReuseAddr(true))
	require.NoError(t, second.SetReuseAddr(true))
	require.NoError(t, first.Bind(netip.MustParseAddrPort("127.0.0.1:0")))
	require.NoError(t, second.Bind(first.LocalAddr()))
}

// SetReuseAddr fails after Connect on the local path, because the connection then owns
// the socket that reserves the port.
func TestReuseAddrAfterConnect(t *testing.T) {
	s := newParty(t)
	l := s.Listen(cm.TCP, "127.0.0.1:0", 0)
	active := s.Connecting(cm.TCP, l.LocalAddr(), nil)
	require.ErrorIs(t, active.SetReuseAddr(true), verbs.ErrNotSupported)
	passive, _ := s.Request(l)
	require.NoError(t, passive.SetReuseAddr(true), "a passive ID has no port of its own")
	require.NoError(t, passive.Reject(nil))
	s.WantRefusal(active, true, nil)
}
