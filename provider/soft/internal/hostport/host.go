//go:build linux

package hostport

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/random"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
)

// A Host is the host of a device: this host, or a simulated one. It knows the addresses,
// the routes and the ports. Any goroutine may call its methods, except on a simulated host;
// see simhost.Host.
type Host struct {
	sim    simhost.Host  // nil for this host
	random random.Source // source of free ports, and of the numbers of shared ones
	prefix string        // beginning of the names of Unix sockets; see NamePrefix
}

// namePrefix is the beginning of all names. It contains the version of the protocol, 1.
const namePrefix = "@rdmaloop/1/"

// maxHostName is the largest length of a simulated host's name. With it, the longest name
// of a BindAddr has maxNameLength bytes.
const maxHostName = 24

// Opened is called with each socket that the process has opened or received. It returns fd.
func (h *Host) Opened(fd int) int { return simhost.Opened(h.sim, fd) }

// New returns a simulated host, or this host if the parameter sim is nil. The name of a
// simulated host must have 1 to 24 bytes, without slashes and spaces.
func New(sim simhost.Host) *Host {
	h := &Host{sim: sim, random: random.From(sim), prefix: namePrefix}
	if sim == nil {
		return h
	}
	name := sim.Name()
	if name == "" || len(name) > maxHostName || strings.ContainsAny(name, "/ \t\n") {
		panic(fmt.Sprintf("hostport: invalid name %q of a simulated host", name))
	}
	h.prefix += "sim/" + name + "/"
	return h
}

// NamePrefix returns the beginning of all abstract names of the host's Unix sockets. It
// begins with '@'; see unix(7). The names of two simulated hosts are never the same.
func (h *Host) NamePrefix() string { return h.prefix }

// FixedAddrs reports whether the addresses of the host never change, as those of a
// simulated host.
func (h *Host) FixedAddrs() bool { return h.sim != nil }

// firstUserPort is the lowest port that a process without privileges may bind.
const firstUserPort = 1024

// mayBindLow reports whether this process may bind ports below firstUserPort
// (CAP_NET_BIND_SERVICE, capabilities(7)).
func (h *Host) mayBindLow() bool {
	if h.sim != nil {
		return true
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return false
	}
	return sets[0].Effective&(1<<unix.CAP_NET_BIND_SERVICE) != 0
}

// OnThisHost reports whether packets to an address stay on this host. All of 127.0.0.0/8
// and the anycast addresses of this host count too. The error is verbs.ErrNoResources if
// no descriptor was free.
func (h *Host) OnThisHost(a netip.Addr) (bool, error) {
	if a.IsUnspecified() {
		// Connecting to 0.0.0.0 or :: connects to this host; see ip(7).
		return true, nil
	}
	if h.sim != nil {
		a = WithoutZone(a)
		return a.IsLoopback() || slices.Contains(h.sim.Addrs(), a), nil
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

// canBind does what OnThisHost does, on kernels that do not report routes. For IPv6 the
// result can be wrong if net.ipv6.ip_nonlocal_bind is set.
func canBind(a netip.Addr) (bool, error) {
	if a.IsMulticast() {
		return false, nil
	}
	fd, err := UDPSocket(a)
	switch {
	case resource.NoDescriptors(err):
		return false, resource.Wrap(err)
	case err != nil:
		return false, nil // The kernel does not support the address family.
	}
	defer unix.Close(fd)
	switch err := unix.Bind(fd, Sockaddr(a, 0)); {
	// EADDRNOTAVAIL means that the address is not local (ip(7)). For a link-local
	// address without a zone, the error is EINVAL.
	case errors.Is(err, unix.EADDRNOTAVAIL), errors.Is(err, unix.EINVAL):
		return false, nil
	case err != nil:
		return false, err
	}
	// Connecting fails for a broadcast address (udp(7), SO_BROADCAST).
	return unix.Connect(fd, Sockaddr(a, discardPort)) == nil, nil
}

// CheckOwn returns an error that matches cm.ErrAddrNotAvailable, and has the address, if that
// is not an address of this host.
func (h *Host) CheckOwn(a netip.Addr) error {
	own, err := h.OnThisHost(a.Unmap())
	if err == nil && !own {
		return fmt.Errorf("%w: %v is no address of this host", cm.ErrAddrNotAvailable, a)
	}
	return err
}

// SourceFor returns the address from which the host would send to dst, or
// cm.ErrNoRoute. It sends nothing.
func (h *Host) SourceFor(dst netip.Addr) (netip.Addr, error) {
	if h.sim != nil {
		src, ok := h.sim.SourceFor(WithoutZone(dst))
		if !ok {
			return netip.Addr{}, cm.ErrNoRoute
		}
		return src, nil
	}
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

// Addrs returns the addresses of the host's interfaces.
func (h *Host) Addrs() (addrs []netip.Addr, err error) {
	if h.sim != nil {
		return h.sim.Addrs(), nil
	}
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			addrs = append(addrs, prefix.Addr())
		}
	}
	return addrs, err
}

// InterfaceMTU returns the MTU of the interface of an address, or 0. All of 127.0.0.0/8
// belongs to the loopback interface.
func (h *Host) InterfaceMTU(local netip.Addr) int {
	if h.sim != nil {
		return h.sim.MTU()
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return 0
	}
	for _, ifi := range interfaces {
		addrs, _ := ifi.Addrs()
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && (p.Addr() == local.WithZone("") || p.Addr().IsLoopback() && p.Contains(local)) {
				return ifi.MTU
			}
		}
	}
	return 0
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

// AddrOf returns the address and port in a socket address. It returns false if the
// socket address is neither IPv4 nor IPv6.
func AddrOf(name unix.Sockaddr) (at netip.AddrPort, ok bool) {
	switch name := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(name.Addr), uint16(name.Port)), true
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(name.Addr).WithZone(zoneName(name.ZoneId)), uint16(name.Port)), true
	}
	return at, false
}

// discardPort is a port for sockets that are connected only to look up a route (RFC
// 863). Nothing is sent to it.
const discardPort = 9

// UDPSocket makes an unbound, non-blocking UDP socket for the address family of a.
func UDPSocket(a netip.Addr) (int, error) {
	family := unix.AF_INET6
	if a.Unmap().Is4() {
		family = unix.AF_INET
	}
	return unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
}

// Sockaddr converts an address and port to a socket address.
func Sockaddr(a netip.Addr, port int) unix.Sockaddr { return new(SockaddrBuf).Set(a, port) }

// A SockaddrBuf is memory for a socket address.
type SockaddrBuf struct {
	v4 unix.SockaddrInet4
	v6 unix.SockaddrInet6
}

// Set stores an address and port. The result is part of s.
func (s *SockaddrBuf) Set(a netip.Addr, port int) unix.Sockaddr {
	if a = a.Unmap(); a.Is4() {
		s.v4 = unix.SockaddrInet4{Addr: a.As4(), Port: port}
		return &s.v4
	}
	s.v6 = unix.SockaddrInet6{Addr: a.As16(), Port: port, ZoneId: ZoneID(a.Zone())}
	return &s.v6
}

// ZoneID returns the index of the interface with the given name, or 0; see ipv6(7),
// sin6_scope_id.
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
