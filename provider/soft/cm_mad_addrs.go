//go:build linux

package soft

import (
	"net"
	"net/netip"
	"slices"

	"github.com/rdmaloop/rdmaloop/cm"
)

// A madAddr is an address at which a listener accepts requests on the wire path, or
// should accept them.
type madAddr struct {
	addr netip.Addr
	port *madPort // UDP port of the address; nil if it is not served
	err  error    // reason why the address is not served
}

// madAddrs are the addresses of one listener. The lock of its channel guards them.
type madAddrs []*madAddr

// add adds an address and opens it for a listener. If the address can not be opened, its
// error is stored.
func (ps *madAddrs) add(l *madListener, addr netip.Addr) {
	p := &madAddr{addr: addr}
	p.open(l)
	*ps = append(*ps, p)
}

// open tries to open the UDP port of the address.
func (p *madAddr) open(l *madListener) { p.port, p.err = l.mux.open(p.addr, l.ch) }

// set replaces the addresses by addrs. It opens new addresses, opens those again that
// could not be opened before, and closes those that are not in addrs. It reports whether
// anything has changed.
func (ps *madAddrs) set(l *madListener, addrs []netip.Addr) (changed bool) {
	for _, p := range *ps {
		if !slices.Contains(addrs, p.addr) {
			p.close(l.ch)
			changed = true
		}
	}
	*ps = slices.DeleteFunc(*ps, func(p *madAddr) bool { return !slices.Contains(addrs, p.addr) })
	for _, addr := range addrs {
		i := slices.IndexFunc(*ps, func(p *madAddr) bool { return p.addr == addr })
		switch {
		case i < 0:
			ps.add(l, addr)
			changed = true
		case (*ps)[i].port == nil:
			(*ps)[i].open(l)
			changed = changed || (*ps)[i].port != nil
		}
	}
	return changed
}

func (p *madAddr) close(ch *channel) {
	if p.port != nil {
		p.port.close(ch)
		p.port = nil
	}
}

func (ps madAddrs) close(ch *channel) {
	for _, p := range ps {
		p.close(ch)
	}
}

// ports returns the ports of the served addresses.
func (ps madAddrs) ports() (open []*madPort) {
	for _, p := range ps {
		if p.port != nil {
			open = append(open, p.port)
		}
	}
	return open
}

// interfaceAddrs returns the addresses of the interfaces at which a listener on a
// wildcard accepts requests. It omits link-local addresses. If the device has the local
// path, it also omits loopback addresses.
func (l *madListener) interfaceAddrs() (addrs []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		addr := prefix.Addr()
		local := addr.IsLoopback() && l.ch.dev.cfg.Path != PathWire
		if !addr.IsLinkLocalUnicast() && !local && l.addr.Covers(netip.AddrPortFrom(addr, l.addr.Port)) {
			addrs = append(addrs, addr)
		}
	}
	return addrs, err
}

// followAddresses serves the addresses of the interfaces, now and after each change.
func (l *madListener) followAddresses() {
	// The watch starts before the addresses are listed, so that no change is missed.
	l.watch, l.watchErr = watchAddresses(l.ch, l)
	addrs, err := l.interfaceAddrs()
	if err != nil {
		l.watchErr = err
	}
	l.addrs.set(l, addrs)
}

// addressesChanged opens and closes addresses. If anything has changed, the application
// gets AddrChange, and can call Serves again.
func (l *madListener) addressesChanged() {
	addrs, err := l.interfaceAddrs()
	if err == nil && l.addrs.set(l, addrs) {
		l.id.raise(cm.TransportEvent{Type: cm.AddrChange})
	}
}

// serves implements listener.
func (l *madListener) serves() (served []cm.ServedAddr) {
	for _, p := range l.addrs {
		served = append(served, l.served(p.addr, p.err))
	}
	if l.watchErr != nil {
		served = append(served, l.served(l.addr.Addr, l.watchErr))
	}
	return served
}

func (l *madListener) served(addr netip.Addr, err error) cm.ServedAddr {
	return cm.ServedAddr{Path: PathWire.String(), Addr: netip.AddrPortFrom(addr, l.addr.Port), Err: err}
}
