package access

import "net/netip"

// SourceOf returns an IPv4 address, or the /64 network of an IPv6 address. It is one
// source, because a host may use all addresses of its network (RFC 4291, 2.5.4).
func SourceOf(addr netip.Addr) netip.Addr { return networkOf(addr, 64) }

// siteOf returns an IPv4 address, or the /48 prefix of an IPv6 address. A site may use
// all networks of its prefix (RFC 6177, 2), which are too many for a table with
// long-lived records.
func siteOf(addr netip.Addr) netip.Addr { return networkOf(addr, 48) }

// networkOf returns the network of an IPv6 address with a prefix of the given bits, and
// an IPv4 address unchanged.
func networkOf(addr netip.Addr, bits int) netip.Addr {
	if addr = addr.Unmap().WithZone(""); addr.Is4() {
		return addr
	}
	// An invalid address gives the zero Addr.
	p, _ := addr.Prefix(bits)
	return p.Addr()
}
