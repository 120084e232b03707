package wire

import "net/netip"

// A GID is the address of a port. It is an IPv6 address or an IPv4-mapped address.
// Source: IBTA annex A17.4.1.1.
type GID [16]byte

// NewGID returns the GID of an IP address. The zone is dropped.
func NewGID(a netip.Addr) GID { return a.As16() }

// Addr returns the IP address. An IPv4-mapped address is returned as an IPv4 address.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// A ServiceID names a service on a host. In the RDMA IP CM service, it is a port space
// and a port. Source: IBTA annex A11.2.
type ServiceID uint64

// NewServiceID returns the service id of a port. The port space is 0x0106 for RC and
// 0x0111 for UD, as in the kernel's enum rdma_port_space.
func NewServiceID(portSpace, port uint16) ServiceID {
	return ServiceID(portSpace)<<16 | ServiceID(port)
}

// Port returns the port space and the port. If the service id does not belong to the RDMA
// IP CM service, ok is false.
func (s ServiceID) Port() (portSpace, port uint16, ok bool) {
	// Upper 40 bits of every service id of the RDMA IP CM service. The lower 24 bits are
	// the protocol number (8 bits) and the port (16 bits).
	const prefix = 1
	if s>>24 != prefix {
		return 0, 0, false
	}
	return uint16(s >> 16), uint16(s), true
}
