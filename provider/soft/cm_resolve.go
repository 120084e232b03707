//go:build linux

package soft

import (
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Statuses of events: negated errnos, numbered as on Linux.
const (
	statusNoDevice = -19  // ENODEV
	statusTimedOut = -110 // ETIMEDOUT
	statusRefused  = -111 // ECONNREFUSED
)

// devicePort is the number of the device's only port.
const devicePort = 1

// options are what SetOption sets.
type options struct {
	tos           uint8
	reuse         bool
	afOnly        bool
	ackTimeout    uint8 // code of the ACK timeout, 5 bits; valid if ackTimeoutSet
	ackTimeoutSet bool
	minRNRTimer   uint8 // code of the minimum RNR timer, 5 bits
}

// SetOption sets one option. On a bound ID, AFONLY and REUSEADDR change the name that
// reserves the port. REUSEADDR lets an ID bind to a port that other IDs with the
// option have bound; only one of them can listen.
func (i *id) SetOption(option cm.Option, value int) error {
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

// setReuse sets or clears the option. Clearing the option of a bound ID does not end
// the sharing of its port.
func (i *id) setReuse(on bool) error {
	if on && i.local.IsValid() {
		if err := i.port.share(); err != nil {
			return explainClash(err)
		}
	}
	i.opts.reuse = on
	return nil
}

func (i *id) setAFOnly(on bool) error {
	if i.local.IsValid() {
		if err := i.port.restrict(on); err != nil {
			return explainClash(err)
		}
	}
	i.opts.afOnly = on
	return nil
}

// Bind reserves the port on the address.
func (i *id) Bind(addr netip.AddrPort) error {
	ch := i.lock()
	defer ch.unlock()
	if err := checkOwn(addr.Addr()); err != nil {
		return err
	}
	return i.bind(ch, addr)
}

// bind is for an address of this host.
func (i *id) bind(ch *channel, addr netip.AddrPort) error {
	if i.local.IsValid() {
		return verbs.ErrState
	}
	port, err := ch.dev.reserve(i.ps, addr, i.opts.afOnly, i.opts.reuse)
	if err != nil {
		return noResources(explainClash(err))
	}
	i.port = port
	i.local = netip.AddrPortFrom(addr.Addr().Unmap(), port.addr.port)
	if !port.addr.wildcard() {
		i.bound = ch.dev
	}
	return nil
}

// Listen starts listening. At most backlog requests wait to be fetched. Of those
// that come beyond, connections wait without an answer until there is room or
// they time out, and lookups are refused.
func (i *id) Listen(backlog int) error {
	ch := i.lock()
	defer ch.unlock()
	if err := i.port.claim(); err != nil {
		return explainClash(err)
	}
	i.backlog = backlog
	return i.openListeners()
}

// ResolveAddr finds out at once whether dst can be reached. On the wire path it
// opens the UDP port, which somebody else may have.
func (i *id) ResolveAddr(src, dst netip.AddrPort, _ time.Duration) error {
	ch := i.lock()
	defer ch.unlock()
	from, err := i.source(src, dst)
	if err != nil {
		return noResources(err)
	}
	if !i.local.IsValid() {
		if err := i.bind(ch, from); err != nil {
			return err
		}
	}
	if err := i.findPath(ch, from.Addr(), dst.Addr()); err != nil {
		i.raise(cm.TransportEvent{Type: cm.AddrError, Status: statusNoDevice, Err: err})
		return nil
	}
	i.local = netip.AddrPortFrom(from.Addr(), i.local.Port())
	i.remote = dst
	i.bound = ch.dev
	i.raise(cm.TransportEvent{Type: cm.AddrResolved})
	return nil
}

// source is the address that the ID sends from to dst: the one it is bound to,
// else src, else the one that the system would choose.
func (i *id) source(src, dst netip.AddrPort) (netip.AddrPort, error) {
	bound := i.local.IsValid()
	if bound {
		src = i.local
	}
	if src.Addr().IsValid() && src.Addr().Unmap().Is4() != dst.Addr().Is4() {
		return src, &verbs.ParamError{Field: "destination address length", Value: int64(dst.Addr().BitLen() / 8), Limit: int64(src.Addr().Unmap().BitLen() / 8), Reason: "not of the family of the source"}
	}
	switch given := src.Addr().IsValid() && !src.Addr().IsUnspecified(); {
	case given && bound:
		return src, nil
	case given:
		return src, checkOwn(src.Addr())
	}
	addr, err := sourceFor(dst.Addr())
	return netip.AddrPortFrom(addr, src.Port()), err
}

// ResolveRoute has nothing to find on the local path.
func (i *id) ResolveRoute(time.Duration) error {
	ch := i.lock()
	defer ch.unlock()
	i.raise(cm.TransportEvent{Type: cm.RouteResolved})
	return nil
}
