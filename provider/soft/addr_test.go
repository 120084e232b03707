//go:build linux

package soft

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// loopbackUp brings the loopback interface up (netdevice(7), SIOCSIFFLAGS).
func loopbackUp(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	require.NoError(t, err)
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	require.NoError(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr))
}

// setAddr adds an address to the loopback interface, or removes it, and waits until
// the system has done so (rtnetlink(7), RTM_NEWADDR and RTM_DELADDR).
func setAddr(t *testing.T, addr netip.Addr, add bool) {
	t.Helper()
	lo, err := net.InterfaceByName("lo")
	require.NoError(t, err)
	kind, flags := uint16(unix.RTM_DELADDR), uint16(unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	if add {
		kind, flags = unix.RTM_NEWADDR, flags|unix.NLM_F_CREATE|unix.NLM_F_EXCL
	}
	family := byte(unix.AF_INET)
	if addr.Is6() {
		family = unix.AF_INET6
	}
	order := binary.NativeEndian
	body := order.AppendUint32([]byte{family, byte(addr.BitLen()), unix.IFA_F_NODAD, 0}, uint32(lo.Index))
	for _, attribute := range []uint16{unix.IFA_LOCAL, unix.IFA_ADDRESS} {
		body = order.AppendUint16(body, uint16(4+len(addr.AsSlice())))
		body = order.AppendUint16(body, attribute)
		body = append(body, addr.AsSlice()...)
	}
	request := order.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	request = order.AppendUint16(request, kind)
	request = order.AppendUint16(request, flags)
	request = append(request, make([]byte, 8)...) // sequence number and port ID of struct nlmsghdr
	request = append(request, body...)

	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, unix.SizeofNlMsghdr+4)
	require.Zero(t, int32(order.Uint32(answer[unix.SizeofNlMsghdr:])), "errno of the system")
}
