package gnetrdma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"

	"github.com/rdmaloop/rdmaloop/internal/netaddr"
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
	addr, err := netaddr.Listen(context.Background(), u.Scheme, u.Host)
	return endpoint{u.Scheme, addr}, err
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

// resolvePeer returns the address to connect to. The networks of TCP mean those of RDMA.
func resolvePeer(network, address string) (netip.AddrPort, error) {
	addrs, err := netaddr.Dial(context.Background(), network, address)
	if errors.As(err, new(net.UnknownNetworkError)) {
		return netip.AddrPort{}, unsupported(network)
	}
	if err != nil {
		return netip.AddrPort{}, err
	}
	return addrs[0], nil
}
