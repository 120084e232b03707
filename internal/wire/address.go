package wire

import "net/netip"

// A GID is the address of a port: an IPv6 address, or an IPv4-mapped one (IBTA annex
// A17.4.1.1).
type GID [16]byte

// NewGID returns the GID of an IP address, without its zone.
func NewGID(a netip.Addr) GID { return a.As16() }

// Addr returns the IP address. A mapped IPv4 address becomes an IPv4 address.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// A ServiceID names a service of a host: in the RDMA IP CM service, a port space and a
// port (IBTA annex A11.2).
type ServiceID uint64

// NewServiceID returns the service id of a port. The port space is 0x0106 for RC and
// 0x0111 for UD (the kernel's enum rdma_port_space).
func NewServiceID(portSpace, port uint16) ServiceID {
	return ServiceID(portSpace)<<16 | ServiceID(port)
}

// Port returns the port space and the port. It returns false for a service id outside
// the RDMA IP CM service.
func (s ServiceID) Port() (portSpace, port uint16, ok bool) {
	// prefix is the upper 40 bits of a service id of the RDMA IP CM service. The
	// protocol number (8 bits) and the port (16 bits) follow.
	const prefix = 1
	if s>>24 != prefix {
		return 0, 0, false
	}
	return uint16(s >> 16), uint16(s), true
}
