package cm

import (
	"context"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/netaddr"
)

// ListenAddr returns the address to listen at for a text that a user has typed, such as
// ":7471", "192.0.2.1:7471", "[::1]:7471" or "localhost:7471". It looks up names, until ctx
// ends. Source: rdma_getaddrinfo(3) with the flag RAI_PASSIVE.
//
// No host means all addresses of this host, "::". If a name has several addresses, the result
// is the first IPv4 address, or else the first IPv6 address. Port 0 or no number means any
// free port.
//
// The errors are those of package net:
//
//   - *net.AddrError: the text is no host and port
//   - *net.DNSError: the name of the host or of the port is not known, or ctx has ended; then
//     the error matches ctx.Err()
func ListenAddr(ctx context.Context, hostPort string) (netip.AddrPort, error) {
	return netaddr.Listen(ctx, "tcp", hostPort)
}

// DialAddr returns the address to connect to for a text that a user has typed; see ListenAddr.
// Here no host means this host, 127.0.0.1. The address 0.0.0.0 means 127.0.0.1 too, and [::]
// means [::1]. A text without a number of a port has port 0, which can not be dialed.
func DialAddr(ctx context.Context, hostPort string) (netip.AddrPort, error) {
	addrs, err := netaddr.Dial(ctx, "tcp", hostPort)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return addrs[0], nil
}

// DefaultBacklog is the backlog of a Listen whose argument is 0 or less. The Linux
// kernel has the same default.
const DefaultBacklog = 1024

// Bind gives the ID a local address and port. The address belongs to the host, or is a
// wildcard. An address of the host also determines the device. Port 0 means any free
// port. An IPv4-mapped IPv6 address counts as an IPv4 address. Source:
// rdma_bind_addr(3).
//
// The errors:
//
//   - *verbs.ParamError.
//   - ErrAddrInUse, ErrAddrNotAvailable: with the soft device the text names the process or
//     the user that has the address and port, and the Unix socket.
//   - ErrNoRoute: no device has the address.
//   - syscall.Errno: for example, the port needs a privilege.
func (id *ID) Bind(addr netip.AddrPort) error {
	return id.do(callBind, func() error {
		addr := unmap(addr)
		if err := checkLocal(addr); err != nil {
			return err
		}
		return id.t.Bind(addr)
	})
}

// Listen starts to accept requests at the address of the ID. Each request arrives as a
// ConnectRequest event. A listener on a wildcard may fail at some of its addresses; see
// Serves. Source: rdma_listen(3).
//
// The backlog is the number of requests that may wait for EventChannel.Next. Zero or
// less means DefaultBacklog. The transport may have a lower limit. If there is no room
// for a connection request, the request is dropped, and the peer sends it again. If
// there is no room for a datagram lookup, the lookup is refused.
//
// The errors are ErrAddrInUse and ErrAddrNotAvailable, as those of Bind. With
// soft.Config.ListenOnAll, and on a device that can serve no address at all, the error wraps
// ServedAddr.Err.
func (id *ID) Listen(backlog int) error {
	return id.do(callListen, func() error {
		if backlog <= 0 {
			backlog = DefaultBacklog
		}
		return id.t.Listen(backlog)
	})
}

// ResolveAddr starts to look for the device and the next hop for dst. The result is the
// event AddrResolved or AddrError. After AddrError the call may be repeated. The timeout
// is positive and at most MaxTimeout. Source: rdma_resolve_addr(3).
//
// An ID that is not bound yet is bound to src. A zero src means any local address from
// which dst can be reached. If the ID is bound already, src is ignored.
func (id *ID) ResolveAddr(src, dst netip.AddrPort, timeout time.Duration) error {
	return id.do(callResolveAddr, func() error {
		src, dst := unmap(src), unmap(dst)
		if err := checkRemote(id.ps, src, dst); err != nil {
			return err
		}
		if err := checkTimeout(timeout); err != nil {
			return err
		}
		if id.state == StateBound {
			src = netip.AddrPort{}
		}
		return id.t.ResolveAddr(src, dst, timeout)
	})
}

// ResolveRoute starts to look for the route to the resolved address. The result is the
// event RouteResolved or RouteError. After RouteError the call may be repeated. The
// timeout is positive and at most MaxTimeout. Source: rdma_resolve_route(3).
func (id *ID) ResolveRoute(timeout time.Duration) error {
	return id.do(callResolveRoute, func() error {
		if err := checkTimeout(timeout); err != nil {
			return err
		}
		return id.t.ResolveRoute(timeout)
	})
}

// A ServedAddr is an address of a listener.
type ServedAddr struct {
	// Path names the path on which requests arrive. The soft device has the paths
	// "local" and "wire". If the device has only one path, Path is empty.
	Path string
	// Addr is the address and port. The unspecified address (0.0.0.0 or ::) stands for
	// all addresses of the host, including those that it gets later.
	Addr netip.AddrPort
	// Err says why the listener can not accept requests at the address. If it can, Err
	// is nil.
	Err error
}

// A ServesReader is a TransportID that knows the addresses at which it accepts requests.
type ServesReader interface {
	// Serves implements ID.Serves for an ID that listens. If the transport does not know
	// the addresses, Serves returns nil. The caller owns the slice.
	Serves() []ServedAddr
}

// Serves returns the addresses of a listener. For other IDs it returns nil. A listener
// on a wildcard gets AddrChange when its addresses change. The caller owns the slice.
func (id *ID) Serves() []ServedAddr {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.state != StateListening {
		return nil
	}
	if t, ok := id.t.(ServesReader); ok {
		if served := t.Serves(); served != nil {
			return served
		}
	}
	return []ServedAddr{{Addr: id.t.LocalAddr()}}
}
