//go:build linux

package hostport

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

// holdAll occupies all ports of a range on the address of s.
func holdAll(t *testing.T, s BindAddr, ports PortRange) {
	t.Helper()
	var fds []int
	t.Cleanup(func() { unixsock.CloseAll(fds) })
	for port := ports.Low; port <= ports.High; port++ {
		s.Port = uint16(port)
		fd, err := unixsock.Bind(s.Name())
		require.NoError(t, err)
		fds = append(fds, fd)
	}
}

// If no port is free, the error names a socket that has one of the ports.
func TestReserveAnyTellsHolder(t *testing.T) {
	ports := PortRange{20000, 20009}
	holdAll(t, addrAt("127.0.0.3:0"), ports)
	for _, at := range []string{"127.0.0.3:0", "0.0.0.0:0"} {
		_, err := addrAt(at).reserveAny(ports)
		require.ErrorIs(t, err, cm.ErrAddrNotAvailable)
		require.ErrorContains(t, err, "no free port found from 20000 to 20009: address not available: @rdmaloop/1/tcp/127.0.0.3/200")
		var holder *cm.HolderError
		require.ErrorAs(t, err, &holder)
		require.True(t, holder.Known)
	}
	ports.High++
	for _, at := range []string{"127.0.0.3:0", "0.0.0.0:0"} {
		r, err := addrAt(at).reserveAny(ports)
		require.NoError(t, err)
		require.EqualValues(t, ports.High, r.Addr.Port, "the only one that is free")
		r.Close()
	}
}

// The search for a free port skips ports that a wildcard has.
func TestReserveAnyAvoidsMarkers(t *testing.T) {
	ports := PortRange{20000, 20002}
	for _, name := range []string{"@rdmaloop/1/tcp/*4/20000", "@rdmaloop/1/tcp/*6/20002"} {
		fd, err := bindMarker(name)
		require.NoError(t, err)
		defer unix.Close(fd)
	}
	for range 10 {
		r, err := addrAt("127.0.0.3:0").reserveAny(ports)
		require.NoError(t, err)
		require.EqualValues(t, 20001, r.Addr.Port)
		require.Equal(t, -1, r.Marker)
		r.Close()
	}
}

// If wildcards have all ports, the error names a wildcard and its user.
func TestReserveAnyTellsHolderOfMarker(t *testing.T) {
	const name = "@rdmaloop/1/tcp/*4/20000"
	fd, err := bindMarker(name)
	require.NoError(t, err)
	defer unix.Close(fd)
	_, err = addrAt("127.0.0.3:0").reserveAny(PortRange{20000, 20000})
	var holder *cm.HolderError
	require.ErrorAs(t, err, &holder)
	require.Equal(t, cm.HolderError{Err: cm.ErrAddrNotAvailable, Name: name, UID: uint32(os.Geteuid()), Known: true}, *holder)
}

// sample() returns no more ports than its limit, and no port twice.
func TestPortRangeSample(t *testing.T) {
	for _, r := range []PortRange{{1, 1}, {1, 2}, {100, 1000}, {32768, 60999}} {
		n := r.High - r.Low + 1
		for _, limit := range []int{1, n, n + 1} {
			var ports []uint16
			for s := r.sample(limit); s.next(); {
				ports = append(ports, s.port)
			}
			require.Len(t, ports, min(n, limit))
			slices.Sort(ports)
			require.Len(t, slices.Compact(slices.Clone(ports)), len(ports))
			require.GreaterOrEqual(t, int(ports[0]), r.Low)
			require.LessOrEqual(t, int(ports[len(ports)-1]), r.High)
		}
	}
}
