package wire

import "net/netip"

// A GID is a port's address: an IPv6 address, or an IPv4 address mapped as
// ::ffff:a.b.c.d (IBTA annex A17.4.1.1).
type GID [16]byte

// NewGID is the GID of an IP address; a zone is dropped.
func NewGID(a netip.Addr) GID { return a.As16() }

// Addr is the IP address; an IPv4 address is not mapped any more.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// A ServiceID is what a connection request is for. Those of the RDMA IP CM
// service are a port space and a port (IBTA annex A11.2).
type ServiceID uint64

// NewServiceID is the service id of a port; portSpace is 0x0106 for the space
// of RC and 0x0111 for that of UD, as numbered by enum rdma_port_space.
func NewServiceID(portSpace, port uint16) ServiceID {
	return ServiceID(portSpace)<<16 | ServiceID(port)
}

// Port splits a service id, or returns false when it is not one of the RDMA IP
// CM service.
func (s ServiceID) Port() (portSpace, port uint16, ok bool) {
	const prefix = 1 // above it is nothing; below, a protocol number (8) and the port
	if s>>24 != prefix {
		return 0, 0, false
	}
	return uint16(s >> 16), uint16(s), true
}
