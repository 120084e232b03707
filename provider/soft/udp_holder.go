//go:build linux

package soft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Names and numbers of linux/inet_diag.h.
const (
	inetRequestSize = 56     // size of struct inet_diag_req_v2
	inetMessageSize = 72     // size of struct inet_diag_msg
	inetUser        = 64     // offset of idiag_uid in struct inet_diag_msg
	inetInode       = 68     // offset of idiag_inode
	inetSourcePort  = 8      // offset of idiag_sport in struct inet_diag_req_v2
	inetDestPort    = 8 + 2  // offset of idiag_dport
	inetSource      = 8 + 4  // offset of idiag_src
	inetDest        = 8 + 20 // offset of idiag_dst
	inetCookie      = 8 + 40 // offset of idiag_cookie
)

var errNoInetDiag = errors.New("no inet_diag")

// udpHolders returns the users whose processes receive UDP datagrams from one address
// of this host to another. The result is empty if no process has the port. A socket
// of this process is bound to the address from.
func udpHolders(from, to netip.AddrPort) (uids []uint32, err error) {
	// A socket with a link-local address is bound to an interface, which is not known
	// here.
	if !to.Addr().IsLinkLocalUnicast() {
		uid, err := diagUDP(from, to)
		if err == nil {
			return []uint32{uid}, nil
		}
		// The kernel returns ENOENT too if it can not report any UDP socket. So it is asked
		// about a socket that is known to exist.
		if _, known := diagUDP(to, from); errors.Is(err, unix.ENOENT) && known == nil {
			return nil, nil
		}
	}
	return listedUDP(to)
}

// diagUDP asks the kernel for the user of the socket that receives datagrams from one
// address to another. The kernel reports the sockets of all users in the network
// namespace; see sock_diag(7).
func diagUDP(from, to netip.AddrPort) (uid uint32, err error) {
	answer, err := askKernel(unix.NETLINK_SOCK_DIAG, inetRequest(from, to))
	if err != nil {
		return 0, err
	}
	kind, body, err := openAnswer(answer)
	if err != nil {
		return 0, err
	}
	if kind != sockDiagByFamily || len(body) < inetMessageSize {
		return 0, errNoInetDiag
	}
	// A socket that is being closed has no inode, and before Linux 6.17 user 0.
	if binary.NativeEndian.Uint32(body[inetInode:]) == 0 {
		return 0, unix.ENOENT
	}
	return binary.NativeEndian.Uint32(body[inetUser:]), nil
}

// inetRequest returns a request for one UDP socket: a netlink header and struct
// inet_diag_req_v2.
func inetRequest(from, to netip.AddrPort) []byte {
	b := make([]byte, unix.SizeofNlMsghdr+inetRequestSize)
	putNetlinkHeader(b, sockDiagByFamily, 0)
	r := b[unix.SizeofNlMsghdr:]
	r[0], r[1] = unix.AF_INET6, unix.IPPROTO_UDP
	if to.Addr().Is4() {
		r[0] = unix.AF_INET
	}
	binary.NativeEndian.PutUint32(r[4:], ^uint32(0)) // sockets in all states
	binary.BigEndian.PutUint16(r[inetSourcePort:], from.Port())
	binary.BigEndian.PutUint16(r[inetDestPort:], to.Port())
	copy(r[inetSource:], from.Addr().AsSlice())
	copy(r[inetDest:], to.Addr().AsSlice())
	binary.NativeEndian.PutUint64(r[inetCookie:], ^uint64(0)) // no cookie: INET_DIAG_NOCOOKIE
	return b
}

// listedUDP replaces diagUDP if the kernel does not answer requests for one socket.
// It reads the tables of proc(5), which list all UDP sockets. An IPv6 socket without
// an address may receive IPv4 datagrams too.
func listedUDP(to netip.AddrPort) (uids []uint32, err error) {
	tables := []string{"/proc/net/udp6"}
	if to.Addr().Is4() {
		tables = append(tables, "/proc/net/udp")
	}
	for _, name := range tables {
		table, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) && name == "/proc/net/udp6" && to.Addr().Is4() {
			continue // the system has no IPv6
		}
		if err != nil {
			return nil, err
		}
		uids = append(uids, usersInTable(string(table), to)...)
	}
	return uids, nil
}

// usersInTable returns the users of the sockets in /proc/net/udp or /proc/net/udp6
// that are bound to an address and port, or to the port without an address.
func usersInTable(table string, at netip.AddrPort) (uids []uint32) {
	const local, user, inode = 1, 7, 9 // indexes of the columns of the table
	for line := range strings.Lines(table) {
		columns := strings.Fields(line)
		// A socket that is being closed has no inode, and perhaps user 0.
		if len(columns) <= inode || columns[inode] == "0" {
			continue
		}
		name, err := parseTableAddr(columns[local])
		if err != nil || name.Port() != at.Port() || name.Addr().Unmap() != at.Addr() && !name.Addr().IsUnspecified() {
			continue
		}
		if uid, err := strconv.ParseUint(columns[user], 10, 32); err == nil && !slices.Contains(uids, uint32(uid)) {
			uids = append(uids, uint32(uid))
		}
	}
	return uids
}

// parseTableAddr parses an address of /proc/net/udp: the words of 32 bits of the
// address, each a hexadecimal number in the byte order of the processor, then a colon
// and the port.
func parseTableAddr(s string) (netip.AddrPort, error) {
	digits, port, found := strings.Cut(s, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	if !found || err != nil || len(digits) != 8 && len(digits) != 32 {
		return netip.AddrPort{}, fmt.Errorf("address %q: %w", s, strconv.ErrSyntax)
	}
	var b []byte
	for ; digits != ""; digits = digits[8:] {
		word, err := strconv.ParseUint(digits[:8], 16, 32)
		if err != nil {
			return netip.AddrPort{}, err
		}
		b = binary.NativeEndian.AppendUint32(b, uint32(word))
	}
	addr, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(addr, uint16(number)), nil
}
