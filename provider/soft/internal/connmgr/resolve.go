//go:build linux

package connmgr

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// ResolveAddr implements cm.TransportID. It queues the event AddrResolved. If the device
// has no path to the address, or if another process has the UDP port, it queues AddrError
// instead.
func (i *ID) ResolveAddr(src, dst netip.AddrPort, _ time.Duration) error {
	ch := i.lock()
	defer ch.unlock()
	from, err := i.source(ch, src, dst)
	if err != nil {
		return resource.Wrap(err)
	}
	if !i.local.IsValid() {
		if err := i.bind(ch, from); err != nil {
			return err
		}
	}
	conn, err := i.findPath(ch, from.Addr(), dst.Addr())
	if err != nil {
		i.raise(cm.TransportEvent{Type: cm.AddrError, Status: StatusNoDevice, Err: err})
		return nil
	}
	i.conn = conn
	i.local = netip.AddrPortFrom(from.Addr(), i.local.Port())
	i.remote = dst
	i.located = true
	i.raise(cm.TransportEvent{Type: cm.AddrResolved})
	return nil
}

// source returns the address from which the ID sends to dst: the bound address if there
// is one, else src if it is specified, and else an address that the system chooses.
func (i *ID) source(ch *Channel, src, dst netip.AddrPort) (netip.AddrPort, error) {
	bound := i.local.IsValid()
	if bound {
		src = i.local
	}
	if src.Addr().IsValid() && src.Addr().Unmap().Is4() != dst.Addr().Is4() {
		return src, &verbs.ParamError{Field: "destination", NotNumber: true, Reason: fmt.Sprintf("%v is not of the family of the source, %v", dst.Addr(), src.Addr())}
	}
	switch specified := src.Addr().IsValid() && !src.Addr().IsUnspecified(); {
	case specified && bound:
		return src, nil
	case specified:
		return src, ch.localAddrs.CheckOwn(src.Addr(), ch.Now())
	}
	addr, err := ch.localAddrs.SourceFor(dst.Addr(), ch.Now())
	return netip.AddrPortFrom(addr, src.Port()), err
}

// ResolveRoute implements cm.TransportID. ResolveAddr has already found the route, so
// ResolveRoute only queues the event RouteResolved.
func (i *ID) ResolveRoute(time.Duration) error {
	ch := i.lock()
	defer ch.unlock()
	i.raise(cm.TransportEvent{Type: cm.RouteResolved})
	return nil
}
