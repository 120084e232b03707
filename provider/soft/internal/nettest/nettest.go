//go:build linux

package nettest

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/netlink"
)

// AddAddr adds the address of a prefix to an interface, and a route to its network. It
// waits until the kernel lists the address.
func AddAddr(t *testing.T, link, prefix string) {
	t.Helper()
	added := netip.MustParsePrefix(prefix)
	setAddr(t, link, added, unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	// require.Eventually would run the check on a thread that can be in another network
	// namespace.
	for deadline := time.Now().Add(30 * time.Second); !IsLocal(t, added.Addr()); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "the host does not get the address")
	}
}

// RemoveAddr removes an address from an interface, and waits until it is gone.
func RemoveAddr(t *testing.T, link, prefix string) {
	t.Helper()
	setAddr(t, link, netip.MustParsePrefix(prefix), unix.RTM_DELADDR, 0)
}

// setAddr adds or removes an address; see rtnetlink(7), RTM_NEWADDR and RTM_DELADDR.
func setAddr(t *testing.T, link string, prefix netip.Prefix, kind, flags uint16) {
	t.Helper()
	ifi, err := net.InterfaceByName(link)
	require.NoError(t, err)
	family := byte(unix.AF_INET)
	if prefix.Addr().Is6() {
		family = unix.AF_INET6
	}
	b := make([]byte, unix.SizeofNlMsghdr)
	b = append(b, family, byte(prefix.Bits()), unix.IFA_F_NODAD, 0)
	b = binary.NativeEndian.AppendUint32(b, uint32(ifi.Index))
	for _, attribute := range []uint16{unix.IFA_LOCAL, unix.IFA_ADDRESS} {
		b = netlink.AppendAttr(b, attribute, prefix.Addr().AsSlice())
	}
	netlink.PutHeader(b, kind, unix.NLM_F_ACK|flags)
	require.NoError(t, Change(b))
}

// Change sends a request of rtnetlink(7) and returns the kernel's error. The request
// must have the flag NLM_F_ACK, because the kernel must answer.
func Change(request []byte) error {
	answer, err := netlink.Ask(unix.NETLINK_ROUTE, request)
	if err != nil {
		return err
	}
	if _, _, err = netlink.Parse(answer); err != unix.Errno(0) {
		return err
	}
	return nil
}

// IsLocal reports whether an address belongs to this host.
func IsLocal(t *testing.T, a netip.Addr) bool {
	t.Helper()
	is, err := hostport.New(nil).OnThisHost(a)
	require.NoError(t, err)
	return is
}

// AddHostAddrs brings the loopback interface up, and adds the addresses to it.
func AddHostAddrs(t *testing.T, addrs ...string) {
	t.Helper()
	peerproc.LinkUp(t, "lo")
	for _, a := range addrs {
		addr := netip.MustParseAddr(a)
		AddAddr(t, "lo", netip.PrefixFrom(addr, addr.BitLen()).String())
	}
}
