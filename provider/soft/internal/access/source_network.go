package access

import "net/netip"

// SourceOf returns an IPv4 address unchanged, and the /64 network of an IPv6 address.
// Addresses with the same result count as one source, because a host may use all
// addresses of its network (RFC 4291, 2.5.4).
func SourceOf(addr netip.Addr) netip.Addr { return networkOf(addr, 64) }

// siteOf returns an IPv4 address unchanged, and the /48 prefix of an IPv6 address.
// Addresses with the same result count as one source in tables that keep their records
// for minutes. One site may use all 65,536 networks of such a prefix (RFC 6177, 2), and
// a table can not keep a record of each of them.
func siteOf(addr netip.Addr) netip.Addr { return networkOf(addr, 48) }

// networkOf returns the network of an IPv6 address: the parameter bits is the length of
// its prefix, and the bits after the prefix are zero in the result. An IPv4 address is
// returned unchanged.
func networkOf(addr netip.Addr, bits int) netip.Addr {
	if addr = addr.Unmap().WithZone(""); addr.Is4() {
		return addr
	}
	// Prefix returns an error only for an invalid address. The result is then the zero
	// Addr.
	p, _ := addr.Prefix(bits)
	return p.Addr()
}
