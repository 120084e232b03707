package access

import "net/netip"

// SourceOf returns the network that stands for a host. For an IPv6 address that is the
// /64 network, because one host may have all its addresses (RFC 4291, 2.5.4). An IPv4
// address is returned unchanged.
func SourceOf(addr netip.Addr) netip.Addr { return networkOf(addr, 64) }

// siteOf returns the network that stands for a site. For an IPv6 address that is the /48
// network, because one site may have all its addresses (RFC 6177, 2). An IPv4 address is
// returned unchanged.
func siteOf(addr netip.Addr) netip.Addr { return networkOf(addr, 48) }

// networkOf shortens an IPv6 address to a prefix of the given length. It returns an IPv4
// address unchanged.
func networkOf(addr netip.Addr, bits int) netip.Addr {
	if addr = addr.Unmap().WithZone(""); addr.Is4() {
		return addr
	}
	// An invalid address gives the zero Addr.
	p, _ := addr.Prefix(bits)
	return p.Addr()
}
