package cm

import (
	"net/netip"
	"time"
)

// DefaultBacklog is what a backlog of 0 means: that of the kernel.
const DefaultBacklog = 1024

// Bind binds the ID to a local address: one of the host, which also binds it to the
// device that has it, or a wildcard. Port 0 means any free one; LocalAddr has the
// choice. An IPv4-mapped IPv6 address counts as IPv4. The errors are
// *verbs.ParamError, ErrAddrInUse, ErrAddrNotAvailable, ErrNoRoute for an address
// that no device has, and the system's error for a port that the caller may not use.
// Where the transport knows the holder of the address, the error has a *HolderError.
// Source: rdma_bind_addr(3).
func (id *ID) Bind(addr netip.AddrPort) error {
	return id.do(callBind, func() error {
		addr := unmap(addr)
		if err := checkLocal(addr); err != nil {
			return err
		}
		return id.t.Bind(addr)
	})
}

// Listen starts taking requests for the address the ID was bound to. An ID bound to a
// wildcard takes requests for the addresses of all devices. Requests arrive as
// ConnectRequest events. backlog is how many requests may wait to be fetched, 0 or
// less meaning DefaultBacklog; the transport may have a lower limit. Further requests
// are dropped in the TCP port space, where the peer repeats them, and refused in the
// UDP port space. Serves returns the addresses at which requests are taken; these may
// be fewer than the caller asked for. Source: rdma_listen(3).
func (id *ID) Listen(backlog int) error {
	return id.do(callListen, func() error {
		if backlog <= 0 {
			backlog = DefaultBacklog
		}
		return id.t.Listen(backlog)
	})
}

// ResolveAddr starts finding the device, and the way, that leads to dst. The
// result is AddrResolved, or AddrError, after which the call may be repeated.
// An ID that is not bound is bound to src, or where that is the zero value to
// an address that suits dst; on a bound one src is ignored. timeout is more than
// 0 and at most 2^31-1 ms. Source: rdma_resolve_addr(3).
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

// ResolveRoute starts finding the route to the resolved address. The result is
// RouteResolved, or RouteError, after which the call may be repeated. timeout is
// as for ResolveAddr. Source: rdma_resolve_route(3).
func (id *ID) ResolveRoute(timeout time.Duration) error {
	return id.do(callResolveRoute, func() error {
		if err := checkTimeout(timeout); err != nil {
			return err
		}
		return id.t.ResolveRoute(timeout)
	})
}
