//go:build linux

package hostport

import (
	"errors"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
)

// firstUserPort is the first port that needs no privilege to bind.
const firstUserPort = 1024

// mayBindLow reports whether the caller has CAP_NET_BIND_SERVICE, which ports
// below firstUserPort need; see capabilities(7).
func mayBindLow() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return false
	}
	return sets[0].Effective&(1<<unix.CAP_NET_BIND_SERVICE) != 0
}

// OnThisHost reports whether packets to an address stay on this host. It asks the
// system, which has a local route to each such address; all of 127.0.0.0/8 has one, and
// so have the IPv6 anycast addresses that this host serves. An error means that the
// system has not answered. The error matches verbs.ErrNoResources if this process has no
// free descriptor for the question.
func OnThisHost(a netip.Addr) (bool, error) {
	if a.IsUnspecified() {
		// A connection to this address is a connection to this host; see ip(7).
		return true, nil
	}
	kind, err := routeType(a)
	switch {
	case err == nil:
		return kind == unix.RTN_LOCAL || kind == unix.RTN_ANYCAST, nil
	case resource.NoDescriptors(err):
		return false, resource.Wrap(err)
	}
	return canBind(a)
}

// canBind replaces OnThisHost if the system does not answer questions about routes. A
// UDP socket can be bound to addresses of this host, and to multicast and broadcast
// addresses, which canBind excludes. With net.ipv6.ip_nonlocal_bind it can be bound
// to any IPv6 address. The error is that of OnThisHost.
func canBind(a netip.Addr) (bool, error) {
	if a.IsMulticast() {
		return false, nil
	}
	fd, err := UDPSocket(a)
	switch {
	case resource.NoDescriptors(err):
		return false, resource.Wrap(err)
	case err != nil:
		return false, nil // The system does not have the address family.
	}
	defer unix.Close(fd)
	switch err := unix.Bind(fd, Sockaddr(a, 0)); {
	// See ip(7). EINVAL is returned for a link-local address without a zone.
	case errors.Is(err, unix.EADDRNOTAVAIL), errors.Is(err, unix.EINVAL):
		return false, nil
	case err != nil:
		return false, err
	}
	// Connecting to a broadcast address needs SO_BROADCAST; see udp(7).
	return unix.Connect(fd, Sockaddr(a, discardPort)) == nil, nil
}

// CheckOwn returns cm.ErrAddrNotAvailable if an address that a program binds is not one
// of this host.
func CheckOwn(a netip.Addr) error {
	own, err := OnThisHost(a.Unmap())
	if err == nil && !own {
		return cm.ErrAddrNotAvailable
	}
	return err
}

// SourceFor returns the address of this host from which the system would send to dst, or
// cm.ErrNoRoute. It sends nothing.
func SourceFor(dst netip.Addr) (netip.Addr, error) {
	fd, err := UDPSocket(dst)
	if err != nil {
		return netip.Addr{}, err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, Sockaddr(dst, discardPort)); err != nil {
		return netip.Addr{}, cm.ErrNoRoute
	}
	name, err := LocalAddr(fd)
	return name.Addr(), err
}

// LocalAddr returns the address and port to which an IP socket is bound.
func LocalAddr(fd int) (netip.AddrPort, error) {
	name, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if at, ok := AddrOf(name); ok {
		return at, nil
	}
	return netip.AddrPort{}, cm.ErrNoRoute
}

// AddrOf returns the address and port of a socket address.
func AddrOf(name unix.Sockaddr) (at netip.AddrPort, ok bool) {
	switch name := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(name.Addr), uint16(name.Port)), true
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(name.Addr).WithZone(zoneName(name.ZoneId)), uint16(name.Port)), true
	}
	return at, false
}

// discardPort is the port to which this package connects sockets that send nothing.
const discardPort = 9

// UDPSocket makes a UDP socket of the address family of an address. The socket is not
// bound, and never blocks.
func UDPSocket(a netip.Addr) (int, error) {
	family := unix.AF_INET6
	if a.Unmap().Is4() {
		family = unix.AF_INET
	}
	return unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
}

// Sockaddr returns an address and port as a socket address.
func Sockaddr(a netip.Addr, port int) unix.Sockaddr {
	if a = a.Unmap(); a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4(), Port: port}
	}
	return &unix.SockaddrInet6{Addr: a.As16(), Port: port, ZoneId: ZoneID(a.Zone())}
}

// ZoneID returns the index of the interface that a zone names, or 0 for no zone; see
// ipv6(7), sin6_scope_id.
func ZoneID(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if ifi, err := net.InterfaceByName(zone); err == nil {
		return uint32(ifi.Index)
	}
	n, _ := strconv.ParseUint(zone, 10, 32)
	return uint32(n)
}

func zoneName(id uint32) string {
	if id == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(id), 10)
}
