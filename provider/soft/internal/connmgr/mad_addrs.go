//go:build linux

package connmgr

import (
	"net"
	"net/netip"
	"slices"

	"github.com/rdmaloop/rdmaloop/cm"
)

// A madAddr is an address at which a listener should accept requests on the wire path.
// The listener does so only if the UDP port of the address could be opened.
type madAddr struct {
	addr netip.Addr
	port *madPort // open UDP port of the address; nil if it could not be opened
	err  error    // reason why the UDP port could not be opened; else nil
}

// madAddrs are the addresses of one listener. The lock of its channel guards them.
type madAddrs []*madAddr

// add adds an address for a listener, and opens the UDP port of the address. If that
// fails, add stores the error in the new madAddr.
func (as *madAddrs) add(l *madListener, addr netip.Addr) {
	a := &madAddr{addr: addr}
	a.open(l)
	*as = append(*as, a)
}

// open tries to open the UDP port of the address.
func (a *madAddr) open(l *madListener) { a.port, a.err = l.mux.open(a.addr, l.ch) }

// set replaces the addresses by addrs. It opens the UDP ports of new addresses, and
// tries again to open ports that could not be opened before. It closes the ports of
// addresses that are not in addrs. It reports whether anything has changed.
func (as *madAddrs) set(l *madListener, addrs []netip.Addr) (changed bool) {
	for _, a := range *as {
		if !slices.Contains(addrs, a.addr) {
			a.close(l.ch)
			changed = true
		}
	}
	*as = slices.DeleteFunc(*as, func(a *madAddr) bool { return !slices.Contains(addrs, a.addr) })
	for _, addr := range addrs {
		i := slices.IndexFunc(*as, func(a *madAddr) bool { return a.addr == addr })
		switch {
		case i < 0:
			as.add(l, addr)
			changed = true
		case (*as)[i].port == nil:
			(*as)[i].open(l)
			changed = changed || (*as)[i].port != nil
		}
	}
	return changed
}

func (a *madAddr) close(ch *channel) {
	if a.port != nil {
		a.port.close(ch)
		a.port = nil
	}
}

func (as madAddrs) close(ch *channel) {
	for _, a := range as {
		a.close(ch)
	}
}

// ports returns the ports of the served addresses.
func (as madAddrs) ports() (open []*madPort) {
	for _, a := range as {
		if a.port != nil {
			open = append(open, a.port)
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
		local := addr.IsLoopback() && l.ch.m.Local
		if !addr.IsLinkLocalUnicast() && !local && l.addr.Covers(netip.AddrPortFrom(addr, l.addr.Port)) {
			addrs = append(addrs, addr)
		}
	}
	return addrs, err
}

// followAddresses opens the listener on the present addresses of the interfaces. It also
// starts the watch that calls addressesChanged after each change.
func (l *madListener) followAddresses() {
	// The watch starts before the addresses are listed, so that no change is missed.
	l.watch, l.watchErr = watchAddresses(l.ch, l)
	addrs, err := l.interfaceAddrs()
	if err != nil {
		l.watchErr = err
	}
	l.addrs.set(l, addrs)
}

// addressesChanged updates the served addresses after a change of the host's addresses.
// If the served addresses have changed, the application gets the event AddrChange, and
// can call Serves again.
func (l *madListener) addressesChanged() {
	addrs, err := l.interfaceAddrs()
	if err == nil && l.addrs.set(l, addrs) {
		l.id.raise(cm.TransportEvent{Type: cm.AddrChange})
	}
}

// serves implements listener. If the start of the watch has failed, the result also has
// the address of the listener with this error.
func (l *madListener) serves() (served []cm.ServedAddr) {
	for _, a := range l.addrs {
		served = append(served, l.served(a.addr, a.err))
	}
	if l.watchErr != nil {
		served = append(served, l.served(l.addr.Addr, l.watchErr))
	}
	return served
}

func (l *madListener) served(addr netip.Addr, err error) cm.ServedAddr {
	return cm.ServedAddr{Path: WirePath, Addr: netip.AddrPortFrom(addr, l.addr.Port), Err: err}
}
