package gnetrdma

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
)

// An endpoint is where a program listens: an address such as "rdma://:7471".
type endpoint struct {
	network string // "rdma", "rdma4" or "rdma6"
	addr    netip.AddrPort
}

// splitAddrs parses the addresses of RDMA, and returns the others unchanged.
func splitAddrs(addrs []string) (endpoints []endpoint, others []string, err error) {
	for _, addr := range addrs {
		if !strings.HasPrefix(addr, "rdma") {
			others = append(others, addr)
			continue
		}
		e, err := parseEndpoint(addr)
		if err != nil {
			return nil, nil, err
		}
		endpoints = append(endpoints, e)
	}
	return endpoints, others, nil
}

// parseEndpoint parses an address such as "rdma://:7471" or "rdma4://192.0.2.1:7471". The
// errors are those of gnet.
func parseEndpoint(address string) (endpoint, error) {
	u, err := url.Parse(strings.ReplaceAll(address, "%", "%25")) // % separates a zone
	switch {
	case err != nil:
		return endpoint{}, err
	case u.Scheme == "":
		return endpoint{}, invalidAddr(address)
	case !isRDMA(u.Scheme):
		return endpoint{}, unsupported(u.Scheme)
	case u.Host == "", u.Path != "":
		return endpoint{}, invalidAddr(address)
	}
	addr, err := resolve(u.Scheme, u.Host)
	if err != nil {
		return endpoint{}, err
	}
	if !addr.Addr().IsValid() {
		addr = netip.AddrPortFrom(anyAddr(u.Scheme), addr.Port())
	}
	return endpoint{u.Scheme, addr}, nil
}

// invalidAddr returns the error of gnet for an address that is not valid.
func invalidAddr(address string) error {
	return fmt.Errorf("gnetrdma: %w: %q, and not one such as %q", gneterrors.ErrInvalidNetworkAddress, address, "rdma://192.0.2.1:7471")
}

// unsupported returns the error of gnet for an unknown network. Its text names the networks
// of gnet.
func unsupported(network string) error {
	return fmt.Errorf("gnetrdma: the network %q is none of rdma, rdma4 and rdma6: %w", network, gneterrors.ErrUnsupportedProtocol)
}

// isRDMA reports whether the network is one of this package.
func isRDMA(network string) bool {
	return network == "rdma" || network == "rdma4" || network == "rdma6"
}

// resolve returns the address for a name and a port. The networks of TCP mean those of
// RDMA. The result has no IP address if the name is empty.
func resolve(network, address string) (netip.AddrPort, error) {
	tcp, ok := map[string]string{
		"rdma": "tcp", "rdma4": "tcp4", "rdma6": "tcp6", "tcp": "tcp", "tcp4": "tcp4", "tcp6": "tcp6",
	}[network]
	if !ok {
		return netip.AddrPort{}, unsupported(network)
	}
	addr, err := net.ResolveTCPAddr(tcp, address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	p := addr.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port()), nil
}

// resolvePeer is resolve for an address to connect to. An empty or unspecified address
// means this host, as in package net.
func resolvePeer(network, address string) (netip.AddrPort, error) {
	addr, err := resolve(network, address)
	if err != nil {
		return addr, err
	}
	switch ip := addr.Addr(); {
	case ip.IsValid() && !ip.IsUnspecified():
		return addr, nil
	case ip.Is6() || strings.HasSuffix(network, "6"):
		return netip.AddrPortFrom(netip.IPv6Loopback(), addr.Port()), nil
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), addr.Port()), nil
}

// anyAddr returns the address that means all addresses of this host.
func anyAddr(network string) netip.Addr {
	if network == "rdma4" {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}
