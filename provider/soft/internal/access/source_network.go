package access

import "net/netip"

// SourceOf returns an IPv4 address unchanged. For an IPv6 address it returns the /64
// network, because one host may have all addresses of this network (RFC 4291, 2.5.4).
func SourceOf(addr netip.Addr) netip.Addr { return networkOf(addr, 64) }

// siteOf returns an IPv4 address unchanged. For an IPv6 address it returns the /48
// prefix, because one site may have all networks with this prefix (RFC 6177, 2).
func siteOf(addr netip.Addr) netip.Addr { return networkOf(addr, 48) }

// networkOf returns the network of an IPv6 address. bits is the length of the prefix.
// IPv4 addresses stay the same.
func networkOf(addr netip.Addr, bits int) netip.Addr {
	if addr = addr.Unmap().WithZone(""); addr.Is4() {
		return addr
	}
	// An invalid address gives the zero Addr.
	p, _ := addr.Prefix(bits)
	return p.Addr()
}
