package cm

import (
	"net/netip"
	"time"
)

// DefaultBacklog is the backlog that Listen uses if its argument is 0 or less. The Linux
// kernel's rdma_ucm has the same default.
const DefaultBacklog = 1024

// Bind binds the ID to the local address addr: an address of the host, or a wildcard. An
// address of the host also binds the ID to its device. For port 0 the ID gets any free
// port; see LocalAddr. An IPv4-mapped IPv6 address counts as an IPv4 address. Source:
// rdma_bind_addr(3).
//
// The errors:
//
//   - *verbs.ParamError, ErrAddrInUse, ErrAddrNotAvailable.
//   - ErrNoRoute: no device has the address.
//   - *HolderError, in the chain: another socket holds the address.
//   - syscall.Errno: for example, the caller may not use the port.
func (id *ID) Bind(addr netip.AddrPort) error {
	return id.do(callBind, func() error {
		addr := unmap(addr)
		if err := checkLocal(addr); err != nil {
			return err
		}
		return id.t.Bind(addr)
	})
}

// Listen starts to accept requests at the address of the ID, and on a wildcard at the
// addresses of all devices. Requests arrive as ConnectRequest events. Source:
// rdma_listen(3).
//
// The backlog limits the requests that wait for EventChannel.Next. A backlog of 0 or
// less means DefaultBacklog. The transport may have a lower limit. A request above the
// limit is dropped in the TCP port space, and refused in the UDP port space. A peer
// repeats a dropped request.
//
// Listen may succeed at only some of the addresses: see Serves. The errors are
// ErrAddrInUse, ErrAddrNotAvailable and *HolderError.
func (id *ID) Listen(backlog int) error {
	return id.do(callListen, func() error {
		if backlog <= 0 {
			backlog = DefaultBacklog
		}
		return id.t.Listen(backlog)
	})
}

// ResolveAddr starts to find the device and the next hop for dst. The event AddrResolved
// or AddrError follows. After AddrError the caller may call ResolveAddr again.
//
// An ID that is not bound yet is bound to src. If src is the zero value, ResolveAddr
// chooses a local address from which dst can be reached. A bound ID ignores src. The
// timeout is positive and at most MaxTimeout. Source: rdma_resolve_addr(3).
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

// ResolveRoute starts to find the route to the resolved address. The event RouteResolved
// or RouteError follows. After RouteError the caller may call ResolveRoute again. The
// timeout is positive and at most MaxTimeout. Source: rdma_resolve_route(3).
func (id *ID) ResolveRoute(timeout time.Duration) error {
	return id.do(callResolveRoute, func() error {
		if err := checkTimeout(timeout); err != nil {
			return err
		}
		return id.t.ResolveRoute(timeout)
	})
}
