package cm

import (
	"net/netip"
	"time"
)

// DefaultBacklog is the backlog that Listen uses for 0. It is the default of the Linux
// kernel's rdma_ucm.
const DefaultBacklog = 1024

// Bind binds the ID to the local address addr: an address of the host, or a wildcard.
// With an address of the host, Bind also binds the ID to the device of that address.
// Port 0 means any free port; LocalAddr returns the port. An IPv4-mapped IPv6 address
// counts as IPv4. The errors are *verbs.ParamError, ErrAddrInUse, ErrAddrNotAvailable,
// ErrNoRoute for an address that no device has, and the system's error for a port that
// the caller may not use. If the transport knows which socket holds the address, the
// error has a *HolderError in its chain. Source: rdma_bind_addr(3).
func (id *ID) Bind(addr netip.AddrPort) error {
	return id.do(callBind, func() error {
		addr := unmap(addr)
		if err := checkLocal(addr); err != nil {
			return err
		}
		return id.t.Bind(addr)
	})
}

// Listen starts to accept requests at the address to which the ID is bound. An ID that
// is bound to a wildcard accepts requests for the addresses of all devices. Requests
// arrive as ConnectRequest events. The backlog is the number of requests that may wait
// to be fetched with EventChannel.Next. A backlog of 0 or less means DefaultBacklog. The
// transport may have a lower limit. Further requests are dropped in the TCP port space,
// where the peer repeats them, and refused in the UDP port space. Serves returns the
// addresses at which the ID accepts requests; these may be fewer than the caller asked
// for. The errors are ErrAddrInUse, ErrAddrNotAvailable and *HolderError, as for Bind.
// Source: rdma_listen(3).
func (id *ID) Listen(backlog int) error {
	return id.do(callListen, func() error {
		if backlog <= 0 {
			backlog = DefaultBacklog
		}
		return id.t.Listen(backlog)
	})
}

// ResolveAddr starts to find the device and the next hop for dst. The result is the
// event AddrResolved or AddrError. After AddrError the caller may call ResolveAddr
// again. If the ID is not bound yet, ResolveAddr binds it to src; if src is the zero
// value, it chooses a local address from which dst can be reached. If the ID is bound
// already, src is ignored. The timeout is positive and at most 2^31-1 ms. Source:
// rdma_resolve_addr(3).
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

// ResolveRoute starts to find the route to the resolved address. The result is the event
// RouteResolved or RouteError. After RouteError the caller may call ResolveRoute again.
// The timeout is positive and at most 2^31-1 ms. Source: rdma_resolve_route(3).
func (id *ID) ResolveRoute(timeout time.Duration) error {
	return id.do(callResolveRoute, func() error {
		if err := checkTimeout(timeout); err != nil {
			return err
		}
		return id.t.ResolveRoute(timeout)
	})
}
