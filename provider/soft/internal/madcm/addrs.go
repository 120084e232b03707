//go:build linux

package madcm

import (
	"net"
	"net/netip"
	"slices"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
)

// A madAddr is an address at which a listener receives requests on the wire path.
type madAddr struct {
	addr netip.Addr
	port *madPort // UDP port at the address; nil if it could not be opened
	err  error    // error of opening the UDP port, or nil
}

// madAddrs are the addresses of one listener. The lock of the listener's channel guards
// them.
type madAddrs []*madAddr

// add adds an address and opens its UDP port. If the port can not be opened, the field
// err of the new madAddr has the error.
func (as *madAddrs) add(l *madListener, addr netip.Addr) {
	a := &madAddr{addr: addr}
	a.open(l)
	*as = append(*as, a)
}

func (a *madAddr) open(l *madListener) { a.port, a.err = l.mux.open(a.addr, l.ch) }

// set replaces the addresses of the listener. It closes the UDP ports of removed
// addresses and opens the UDP ports of new ones. It also tries again to open ports that
// could not be opened before. The result is true if anything has changed.
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

func (a *madAddr) close(ch *madChannel) {
	if a.port != nil {
		a.port.closeNow(ch)
		a.port = nil
	}
}

func (as madAddrs) close(ch *madChannel) {
	for _, a := range as {
		a.close(ch)
	}
}

// ports returns the open UDP ports.
func (as madAddrs) ports() (open []*madPort) {
	for _, a := range as {
		if a.port != nil {
			open = append(open, a.port)
		}
	}
	return open
}

// interfaceAddrs returns the addresses of this host at which a listener on a wildcard
// receives requests. It omits link-local addresses. If the device has the local path, it
// omits loopback addresses too.
func (l *madListener) interfaceAddrs() (addrs []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		addr := prefix.Addr()
		local := addr.IsLoopback() && l.mux.AlsoLocal
		if !addr.IsLinkLocalUnicast() && !local && l.addr.Covers(netip.AddrPortFrom(addr, l.addr.Port)) {
			addrs = append(addrs, addr)
		}
	}
	return addrs, err
}

// followAddresses opens the listener at the present addresses of the host, and begins to
// watch for changes of the addresses.
func (l *madListener) followAddresses() {
	// No change is missed, because the watch starts before the addresses are listed.
	l.watch, l.watchErr = watchAddresses(l.ch, l)
	addrs, err := l.interfaceAddrs()
	if err != nil {
		l.watchErr = err
	}
	l.addrs.set(l, addrs)
}

// addressesChanged updates the addresses of the listener. If they have changed, the
// application gets the event AddrChange.
func (l *madListener) addressesChanged() {
	addrs, err := l.interfaceAddrs()
	if err == nil && l.addrs.set(l, addrs) {
		l.id.AddressesChanged()
	}
}

// Serves implements Listener. If the host's addresses can not be watched, the result has
// one additional element, with the address of the ID and the error of watching.
func (l *madListener) Serves() (served []cm.ServedAddr) {
	for _, a := range l.addrs {
		served = append(served, l.served(a.addr, a.err))
	}
	if l.watchErr != nil {
		served = append(served, l.served(l.addr.Addr, l.watchErr))
	}
	return served
}

func (l *madListener) served(addr netip.Addr, err error) cm.ServedAddr {
	return cm.ServedAddr{Path: connmgr.WirePath, Addr: netip.AddrPortFrom(addr, l.addr.Port), Err: err}
}
