//go:build cgo && linux

package rdmacore

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// A sockaddr is a struct sockaddr_in or sockaddr_in6.
type sockaddr [unix.SizeofSockaddrInet6]byte

// Offsets of the fields in bytes. The port has the same offset in IPv4 and IPv6.
const (
	familyAt = 0
	portAt   = 2
	v4At     = 4
	v6At     = 8
	scopeAt  = 24
)

// toSockaddr converts an address. The zero AddrPort becomes a sockaddr of zeros.
func toSockaddr(a netip.AddrPort) (s sockaddr) {
	switch {
	case a.Addr().Is4():
		binary.NativeEndian.PutUint16(s[familyAt:], unix.AF_INET)
		ip := a.Addr().As4()
		copy(s[v4At:], ip[:])
	case a.Addr().Is6():
		binary.NativeEndian.PutUint16(s[familyAt:], unix.AF_INET6)
		ip := a.Addr().As16()
		copy(s[v6At:], ip[:])
		binary.NativeEndian.PutUint32(s[scopeAt:], scopeOf(a.Addr().Zone()))
	}
	binary.BigEndian.PutUint16(s[portAt:], a.Port())
	return s
}

// fromSockaddr converts a socket address. If the family is neither IPv4 nor IPv6, it
// returns the zero AddrPort.
func fromSockaddr(s *sockaddr) netip.AddrPort {
	port := binary.BigEndian.Uint16(s[portAt:])
	switch binary.NativeEndian.Uint16(s[familyAt:]) {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(s[v4At:])), port)
	case unix.AF_INET6:
		ip := netip.AddrFrom16([16]byte(s[v6At:]))
		return netip.AddrPortFrom(ip.WithZone(zoneOf(binary.NativeEndian.Uint32(s[scopeAt:]))), port)
	}
	return netip.AddrPort{}
}

// scopeOf returns the index of the interface that a zone names, or 0 if there is none.
func scopeOf(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n)
	}
	i, err := net.InterfaceByName(zone)
	if err != nil {
		return 0
	}
	return uint32(i.Index)
}

func zoneOf(scope uint32) string {
	if scope == 0 {
		return ""
	}
	if i, err := net.InterfaceByIndex(int(scope)); err == nil {
		return i.Name
	}
	return strconv.FormatUint(uint64(scope), 10)
}
