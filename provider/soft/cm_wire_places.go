//go:build linux

package soft

import (
	"net"
	"net/netip"
	"slices"

	"github.com/rdmaloop/rdmaloop/cm"
)

// A wirePlace is an address at which a listener takes requests by UDP, or should take
// them.
type wirePlace struct {
	addr netip.Addr
	port *madPort // UDP port of the address; nil if it is not served
	err  error    // why the address is not served
}

// wirePlaces are the places of one listener. The lock of its channel guards them.
type wirePlaces []*wirePlace

// add opens an address for a gate. If that fails, it adds the place with its error.
func (ps *wirePlaces) add(g *wireGate, addr netip.Addr) {
	p := &wirePlace{addr: addr}
	p.open(g)
	*ps = append(*ps, p)
}

// open tries to open the UDP port of the address.
func (p *wirePlace) open(g *wireGate) { p.port, p.err = g.x.open(p.addr, g.ch) }

// set replaces the addresses of the places by addrs. It opens new addresses, retries
// those that could not be opened before, and closes those that are not in addrs. It
// reports whether anything has changed.
func (ps *wirePlaces) set(g *wireGate, addrs []netip.Addr) (changed bool) {
	for _, p := range *ps {
		if !slices.Contains(addrs, p.addr) {
			p.close(g.ch)
			changed = true
		}
	}
	*ps = slices.DeleteFunc(*ps, func(p *wirePlace) bool { return !slices.Contains(addrs, p.addr) })
	for _, addr := range addrs {
		i := slices.IndexFunc(*ps, func(p *wirePlace) bool { return p.addr == addr })
		switch {
		case i < 0:
			ps.add(g, addr)
			changed = true
		case (*ps)[i].port == nil:
			(*ps)[i].open(g)
			changed = changed || (*ps)[i].port != nil
		}
	}
	return changed
}

func (p *wirePlace) close(ch *channel) {
	if p.port != nil {
		p.port.close(ch)
		p.port = nil
	}
}

func (ps wirePlaces) close(ch *channel) {
	for _, p := range ps {
		p.close(ch)
	}
}

// ports returns the ports of the served places.
func (ps wirePlaces) ports() (open []*madPort) {
	for _, p := range ps {
		if p.port != nil {
			open = append(open, p.port)
		}
	}
	return open
}

// interfaceAddrs returns the interface addresses at which requests to a wildcard may
// arrive. It leaves out link-local addresses, and also loopback addresses if the
// device has the local path.
func (g *wireGate) interfaceAddrs() (addrs []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		addr := prefix.Addr()
		local := addr.IsLoopback() && g.ch.dev.cfg.Path != PathWire
		if !addr.IsLinkLocalUnicast() && !local && g.spot.covers(netip.AddrPortFrom(addr, g.spot.port)) {
			addrs = append(addrs, addr)
		}
	}
	return addrs, err
}

// followAddresses serves the addresses of the interfaces, now and after each change.
func (g *wireGate) followAddresses() {
	// The watch begins before the addresses are listed, so that no change is missed.
	g.watch, g.watchErr = watchAddresses(g.ch, g)
	addrs, err := g.interfaceAddrs()
	if err != nil {
		g.watchErr = err
	}
	g.places.set(g, addrs)
}

// addressesChanged opens and closes places. If anything has changed, the application
// gets AddrChange and can call Serves again.
func (g *wireGate) addressesChanged() {
	addrs, err := g.interfaceAddrs()
	if err == nil && g.places.set(g, addrs) {
		g.id.raise(cm.TransportEvent{Type: cm.AddrChange})
	}
}

// serves implements gate.
func (g *wireGate) serves() (served []cm.ServedAddr) {
	for _, p := range g.places {
		served = append(served, g.served(p.addr, p.err))
	}
	if g.watchErr != nil {
		served = append(served, g.served(g.spot.addr, g.watchErr))
	}
	return served
}

func (g *wireGate) served(addr netip.Addr, err error) cm.ServedAddr {
	return cm.ServedAddr{Path: PathWire.String(), Addr: netip.AddrPortFrom(addr, g.spot.port), Err: err}
}
