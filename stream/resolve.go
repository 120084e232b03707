package stream

import (
	"context"
	"net"
	"net/netip"
)

// resolve returns the addresses that a call of DialContext or Listen names.
func resolve(ctx context.Context, network, address string) ([]netip.AddrPort, error) {
	ipNetwork, ok := map[string]string{"tcp": "ip", "rdma": "ip", "tcp4": "ip4", "tcp6": "ip6"}[network]
	if !ok {
		return nil, net.UnknownNetworkError(network)
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		return []netip.AddrPort{netip.AddrPortFrom(unspecified(network), uint16(port))}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, ipNetwork, host)
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		addrs[i] = netip.AddrPortFrom(ip.Unmap(), uint16(port))
	}
	return addrs, nil
}

// unspecified returns the address for an empty host name.
func unspecified(network string) netip.Addr {
	if network == "tcp4" {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}
