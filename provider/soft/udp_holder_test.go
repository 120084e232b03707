//go:build linux

package soft

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Both inet_diag and the tables return the user of a socket with and without an
// address, and no user for a free port.
func TestUDPHolders(t *testing.T) {
	self := []uint32{uint32(os.Geteuid())}
	for _, addr := range []string{"127.66.1.1", "::1"} {
		addr := netip.MustParseAddr(addr)
		from := boundUDP(t, netip.AddrPortFrom(addr, 0))
		to := boundUDP(t, netip.AddrPortFrom(addr, 0))
		free := netip.AddrPortFrom(addr, freePort(t))
		anywhere := netip.AddrPortFrom(addr, boundUDP(t, netip.AddrPortFrom(netip.IPv6Unspecified(), 0)).Port())
		for at, want := range map[netip.AddrPort][]uint32{to: self, anywhere: self, free: nil} {
			asked, err := udpHolders(from, at)
			require.NoError(t, err)
			require.Equal(t, want, asked, "%v", at)
			listed, err := listedUDP(at)
			require.NoError(t, err)
			require.Equal(t, want, listed, "%v", at)
		}
	}
}

// If the kernel does not find the socket of this process, the users are read from the
// tables.
func TestUDPHoldersWithoutDiag(t *testing.T) {
	at := boundUDP(t, netip.MustParseAddrPort("127.66.1.2:0"))
	unknown := netip.AddrPortFrom(at.Addr(), freePort(t))
	_, err := diagUDP(at, unknown)
	require.ErrorIs(t, err, unix.ENOENT)
	uids, err := udpHolders(unknown, at)
	require.NoError(t, err)
	require.Equal(t, []uint32{uint32(os.Geteuid())}, uids)
}

// boundUDP binds a socket until the test ends, and returns its address.
func boundUDP(t *testing.T, at netip.AddrPort) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

func TestUsersInTable(t *testing.T) {
	word := func(b ...byte) string { return tableWord(b) }
	table := "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		" 1: " + word(127, 0, 0, 1) + ":12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1001        0 77 2 0 0\n" +
		" 2: " + word(127, 0, 0, 1) + ":12B8 00000000:0000 07 00000000:00000000 00:00000000 00000000  1002        0 77 2 0 0\n" +
		" 3: " + word(0, 0, 0, 0) + ":12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1003        0 77 2 0 0\n" +
		" 4: " + word(127, 0, 0, 2) + ":12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1004        0 77 2 0 0\n" +
		" 5: 00:12B7 x x x x x 5\n 6:\n\n 7: " + word(127, 0, 0, 1) + ":zzzz 0 0 0 0 0 6\n" +
		" 8: " + word(127, 0, 0, 1) + ":12B7 0 0 0 0 0 -1 0 77\n" +
		" 9: " + word(127, 0, 0, 1) + ":12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 0 2 0 0\n"
	require.Equal(t, []uint32{1001, 1003}, usersInTable(table, netip.MustParseAddrPort("127.0.0.1:4791")))
	require.Empty(t, usersInTable(table, netip.MustParseAddrPort("127.0.0.1:9")))
}

// tableWord returns a word of an address as /proc/net/udp shows it on this processor.
func tableWord(b []byte) string { return fmt.Sprintf("%08X", binary.NativeEndian.Uint32(b)) }

func FuzzUsersInTable(f *testing.F) {
	f.Add(" 1: 0100007F:12B7 00000000:0000 07 0:0 00:0 0  1001        0 77 2 0 0\n")
	f.Fuzz(func(_ *testing.T, table string) { usersInTable(table, netip.MustParseAddrPort("[::1]:4791")) })
}
