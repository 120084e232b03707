package cm

import (
	"net/netip"
	"time"
)

// DefaultBacklog is the backlog that Listen uses if its argument is 0 or less. The Linux
// kernel's rdma_ucm has the same default.
const DefaultBacklog = 1024

// Bind binds the ID to the local address addr: an address of the host, or a wildcard. If
// addr is an address of the host, Bind also binds the ID to the device that has the
// address. If the port of addr is 0, the ID gets any free port, which LocalAddr returns.
// Bind treats an IPv4-mapped IPv6 address as an IPv4 address.
//
// The errors are *verbs.ParamError, ErrAddrInUse, ErrAddrNotAvailable, ErrNoRoute if no
// device has the address, and the system's error if the caller may not use the port. If
// another socket holds the address and the transport knows that socket, the chain of the
// error contains a *HolderError. Source: rdma_bind_addr(3).
func (id *ID) Bind(addr netip.AddrPort) error {
	return id.do(callBind, func() error {
		addr := unmap(addr)
		if err := checkLocal(addr); err != nil {
			return err
		}
		return id.t.Bind(addr)
	})
}

// Listen starts to accept requests at the address to which the ID is bound. An ID that is
// bound to a wildcard accepts requests for the addresses of all devices. Requests arrive
// as ConnectRequest events.
//
// The backlog is the number of requests that may wait until EventChannel.Next fetches
// them. A backlog of 0 or less means DefaultBacklog. The transport may have a lower
// limit. If the backlog is full, a further request is dropped in the TCP port space,
// where the peer repeats it, and refused in the UDP port space.
//
// Listen can succeed although the ID accepts requests only at some of the addresses. The
// method Serves returns the addresses, and says at which of them the ID accepts
// requests. The errors are ErrAddrInUse, ErrAddrNotAvailable and *HolderError, as for
// Bind. Source: rdma_listen(3).
func (id *ID) Listen(backlog int) error {
	return id.do(callListen, func() error {
		if backlog <= 0 {
			backlog = DefaultBacklog
		}
		return id.t.Listen(backlog)
	})
}

// ResolveAddr starts to find the device and the next hop for dst. The result is the event
// AddrResolved or AddrError. After AddrError the caller may call ResolveAddr again.
//
// If the ID is not bound yet, ResolveAddr binds the ID to src. If src is the zero value,
// ResolveAddr instead chooses a local address from which dst can be reached. If the ID is
// bound already, ResolveAddr ignores src. The timeout is positive and at most 2^31-1 ms.
// Source: rdma_resolve_addr(3).
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
