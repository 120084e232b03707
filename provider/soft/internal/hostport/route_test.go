//go:build linux

package hostport

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestParseRouteRefuses(t *testing.T) {
	good := make([]byte, unix.SizeofNlMsghdr+unix.SizeofRtMsg)
	good[4] = unix.RTM_NEWROUTE
	_, err := parseRoute(good)
	require.NoError(t, err)
	for _, b := range [][]byte{nil, good[:unix.SizeofNlMsghdr], good[:len(good)-1], make([]byte, 64)} {
		_, err := parseRoute(b)
		require.Error(t, err)
	}
}

func FuzzRouteAnswer(f *testing.F) {
	f.Add([]byte{})
	f.Add(routeRequest(netip.IPv6Loopback()))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = parseRoute(b) })
}
