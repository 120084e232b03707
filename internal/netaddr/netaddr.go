// Package netaddr finds the addresses for a text such as "host:7471", which a user has typed.
//
// The network is "tcp" or "rdma" for all addresses, or has a 4 or 6 at its end. The host is an
// IP address or a name, and the port a number or a name. The errors are *net.AddrError,
// *net.DNSError, and net.UnknownNetworkError.
package netaddr

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Listen returns the address to listen at. It is an IPv4 address if the host has one. No host
// means all addresses: 0.0.0.0 for IPv4 alone, and else ::. No port is port 0.
func Listen(ctx context.Context, network, hostPort string) (netip.AddrPort, error) {
	everywhere := netip.IPv6Unspecified()
	if strings.HasSuffix(network, "4") {
		everywhere = netip.IPv4Unspecified()
	}
	addrs, err := resolve(ctx, network, hostPort, everywhere)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return addrs[0], nil
}

// Dial returns the addresses to dial, at least one: those of IPv4 first, because a server at
// all addresses or at 127.0.0.1 has them. No host means this host, and so does an unspecified
// address, as in package net: the loopback address of its family, and of IPv4 if the network
// allows both.
func Dial(ctx context.Context, network, hostPort string) ([]netip.AddrPort, error) {
	here := netip.IPv4Unspecified()
	if strings.HasSuffix(network, "6") {
		here = netip.IPv6Unspecified()
	}
	addrs, err := resolve(ctx, network, hostPort, here)
	for i, addr := range addrs {
		switch addr.Addr() {
		case netip.IPv4Unspecified():
			addrs[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), addr.Port())
		case netip.IPv6Unspecified():
			addrs[i] = netip.AddrPortFrom(netip.IPv6Loopback(), addr.Port())
		}
	}
	return addrs, err
}

// resolve returns the addresses for hostPort, with those of IPv4 first. For no host it returns
// noHost.
func resolve(ctx context.Context, network, hostPort string, noHost netip.Addr) (addrs []netip.AddrPort, err error) {
	if !slices.Contains([]string{"tcp", "tcp4", "tcp6", "rdma", "rdma4", "rdma6"}, network) {
		return nil, net.UnknownNetworkError(network)
	}
	host, service, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		return []netip.AddrPort{netip.AddrPortFrom(noHost, uint16(port))}, nil
	}
	found, err := net.DefaultResolver.LookupIPAddr(ctx, host) // LookupNetIP loses the zone.
	if err != nil {
		return nil, err
	}
	if addrs = suitable(found, network, uint16(port)); len(addrs) == 0 {
		return nil, &net.AddrError{Err: "no suitable address found", Addr: host}
	}
	return addrs, nil
}

// suitable returns the addresses of the network, with those of IPv4 first.
func suitable(found []net.IPAddr, network string, port uint16) (addrs []netip.AddrPort) {
	for _, ip := range found {
		addr, _ := netip.AddrFromSlice(ip.IP) // The slice has 4 or 16 bytes.
		addr = addr.Unmap().WithZone(ip.Zone)
		if addr.Is4() && !strings.HasSuffix(network, "6") || addr.Is6() && !strings.HasSuffix(network, "4") {
			addrs = append(addrs, netip.AddrPortFrom(addr, port))
		}
	}
	slices.SortStableFunc(addrs, func(a, b netip.AddrPort) int { return a.Addr().BitLen() - b.Addr().BitLen() })
	return addrs
}
