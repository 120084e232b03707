//go:build linux

package hostport

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/random"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

// testPorts are ten ports that another run of this test does not use.
var testPorts = PortRange{Low: 20_000 + os.Getpid()%1000*10, High: 20_009 + os.Getpid()%1000*10}

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
	ports := testPorts
	ports.High-- // The last one is free.
	holdAll(t, addrAt("127.0.0.3:0"), ports)
	for _, at := range []string{"127.0.0.3:0", "0.0.0.0:0"} {
		_, err := addrAt(at).reserveAny(ports)
		require.ErrorIs(t, err, cm.ErrAddrNotAvailable)
		require.ErrorContains(t, err, fmt.Sprintf("no free port found from %d to %d: address not available: a process of user %d has bound 127.0.0.3:", ports.Low, ports.High, os.Geteuid()))
		require.ErrorContains(t, err, " (Unix socket @rdmaloop/1/tcp/127.0.0.3/")
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
	ports := PortRange{testPorts.Low, testPorts.Low + 2}
	for _, name := range []string{
		fmt.Sprintf("@rdmaloop/1/tcp/*4/%d", ports.Low),
		fmt.Sprintf("@rdmaloop/1/tcp/*6/%d", ports.High),
	} {
		fd, err := bindMarker(name)
		require.NoError(t, err)
		defer unix.Close(fd)
	}
	for range 10 {
		r, err := addrAt("127.0.0.3:0").reserveAny(ports)
		require.NoError(t, err)
		require.EqualValues(t, ports.Low+1, r.Addr.Port)
		require.Equal(t, -1, r.Marker)
		r.Close()
	}
}

// If wildcards have all ports, the error names a wildcard and its user.
func TestReserveAnyTellsHolderOfMarker(t *testing.T) {
	name := fmt.Sprintf("@rdmaloop/1/tcp/*4/%d", testPorts.Low)
	fd, err := bindMarker(name)
	require.NoError(t, err)
	defer unix.Close(fd)
	_, err = addrAt("127.0.0.3:0").reserveAny(PortRange{testPorts.Low, testPorts.Low})
	require.ErrorIs(t, err, cm.ErrAddrNotAvailable)
	require.ErrorContains(t, err, fmt.Sprintf("a process of user %d has bound 0.0.0.0:%d (Unix socket %s)", os.Geteuid(), testPorts.Low, name))
}

// sample() returns no more ports than its limit, and no port twice.
func TestPortRangeSample(t *testing.T) {
	for _, r := range []PortRange{{1, 1}, {1, 2}, {100, 1000}, {32768, 60999}} {
		n := r.High - r.Low + 1
		for _, limit := range []int{1, n, n + 1} {
			var ports []uint16
			for s := r.sample(random.Source{}, limit); s.next(); {
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
