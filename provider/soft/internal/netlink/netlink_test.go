//go:build linux

package netlink_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/netlink"
)

// The kernel answers a request for a route, and refuses an unknown request.
func TestAsk(t *testing.T) {
	b := make([]byte, unix.SizeofNlMsghdr+unix.SizeofRtMsg)
	b[unix.SizeofNlMsghdr], b[unix.SizeofNlMsghdr+1] = unix.AF_INET, 32
	b = netlink.AppendAttr(b, unix.RTA_DST, []byte{127, 0, 0, 1})
	netlink.PutHeader(b, unix.RTM_GETROUTE, 0)
	answer, err := netlink.Ask(unix.NETLINK_ROUTE, b)
	require.NoError(t, err)
	kind, body, err := netlink.Parse(answer)
	require.NoError(t, err)
	require.EqualValues(t, unix.RTM_NEWROUTE, kind)
	require.EqualValues(t, unix.RTN_LOCAL, body[7])

	netlink.PutHeader(b, 0xffff, 0) // a request type that NETLINK_ROUTE does not have
	answer, err = netlink.Ask(unix.NETLINK_ROUTE, b)
	require.NoError(t, err)
	_, _, err = netlink.Parse(answer)
	require.ErrorIs(t, err, unix.EOPNOTSUPP)
}

func TestOpenShortAnswer(t *testing.T) {
	for n := range unix.SizeofNlMsghdr + 4 {
		_, _, err := netlink.Parse(make([]byte, n))
		require.ErrorIs(t, err, netlink.ErrShort)
	}
	ok := binary.NativeEndian.AppendUint32(make([]byte, unix.SizeofNlMsghdr), 0)
	binary.NativeEndian.PutUint16(ok[4:], unix.NLMSG_ERROR)
	_, _, err := netlink.Parse(ok)
	require.Equal(t, unix.Errno(0), err, "an acknowledgement is error 0")
}
