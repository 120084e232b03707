//go:build linux

package connmgr

import (
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// SetOption implements cm.TransportID. If the ID is bound, the options AFONLY and
// REUSEADDR also rename the socket that reserves the ID's port.
func (i *ID) SetOption(option cm.Option, value int) error {
	ch := i.lock()
	defer ch.unlock()
	switch option {
	case cm.OptionTOS:
		i.opts.tos = uint8(value)
	case cm.OptionReuseAddr:
		return i.setReuse(value != 0)
	case cm.OptionAFOnly:
		return i.setAFOnly(value != 0)
	case cm.OptionAckTimeout:
		i.opts.ackTimeout, i.opts.ackTimeoutSet = uint8(value), true
	case cm.OptionMinRNRTimer:
		i.opts.minRNRTimer = uint8(value)
	default:
		return &verbs.ParamError{Field: "option", Value: int64(option), Limit: int64(cm.OptionMinRNRTimer)}
	}
	return nil
}

// setReuse sets or clears REUSEADDR. An ID that shares its port continues to share it
// when the option is cleared.
func (i *ID) setReuse(on bool) error {
	if on && i.local.IsValid() {
		if err := i.reservation.Share(); err != nil {
			return hostport.ExplainClash(err)
		}
	}
	i.opts.reuse = on
	return nil
}

func (i *ID) setAFOnly(on bool) error {
	if i.local.IsValid() {
		if err := i.reservation.Restrict(on); err != nil {
			return hostport.ExplainClash(err)
		}
	}
	i.opts.afOnly = on
	return nil
}

// Bind implements cm.TransportID. It reserves the port of the address.
func (i *ID) Bind(addr netip.AddrPort) error {
	ch := i.lock()
	defer ch.unlock()
	if err := hostport.CheckOwn(addr.Addr()); err != nil {
		return err
	}
	return i.bind(ch, addr)
}

func (i *ID) bind(ch *Channel, addr netip.AddrPort) error {
	if i.local.IsValid() {
		return verbs.ErrState
	}
	port, err := hostport.Reserve(i.ps, addr, i.opts.afOnly, i.opts.reuse, i.m.FreePorts)
	if err != nil {
		return resource.Wrap(hostport.ExplainClash(err))
	}
	i.reservation = port
	i.local = netip.AddrPortFrom(addr.Addr().Unmap(), port.Addr.Port)
	if !port.Addr.Wildcard() {
		i.located = true
	}
	return nil
}

// Listen implements cm.TransportID. The backlog is the largest number of requests that
// the application has not fetched. When the backlog is full, connection requests get no
// answer, and SIDR requests are refused.
func (i *ID) Listen(backlog int) error {
	ch := i.lock()
	defer ch.unlock()
	if err := i.reservation.Claim(); err != nil {
		return hostport.ExplainClash(err)
	}
	i.backlog = backlog
	return i.openListeners()
}

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
		return src, &verbs.ParamError{Field: "destination address length", Value: int64(dst.Addr().BitLen() / 8), Limit: int64(src.Addr().Unmap().BitLen() / 8), Reason: "the source address is of another family"}
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
