//go:build linux

package hostport

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/rdmaloop/rdmaloop/cm"
)

// A BindAddr is an address and a port to which a cm.ID is bound.
//
// Its name is for example "@rdmaloop/1/tcp/127.0.0.1/7471". For a wildcard the name has
// "*4", "*6" or "*6only" in place of the address: "*6" accepts IPv4 too, "*6only" does
// not. If several IDs share a port (REUSEADDR), each name ends in "/shared/" and a
// different number.
//
// On a simulated host the names begin with "@rdmaloop/1/sim/" and the name of the host.
type BindAddr struct {
	host   *Host
	ps     cm.PortSpace
	Addr   netip.Addr // an address without a zone; never an IPv4-mapped one
	v6Only bool       // true for the IPv6 wildcard that does not accept IPv4
	Port   uint16
	Shared uint32 // random number of an ID with REUSEADDR; 0 if the port is not shared
}

// NewBindAddr returns the BindAddr of an address and port. If afOnly is true, the IPv6
// wildcard does not accept IPv4.
func (h *Host) NewBindAddr(ps cm.PortSpace, at netip.AddrPort, afOnly bool) BindAddr {
	addr := WithoutZone(at.Addr())
	return BindAddr{host: h, ps: ps, Addr: addr, v6Only: afOnly && addr == netip.IPv6Unspecified(), Port: at.Port()}
}

// WithoutZone returns the address without its zone. It converts an IPv4-mapped address
// to IPv4.
func WithoutZone(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// appendHost appends the form of the address that is part of the name.
func (s BindAddr) appendHost(b []byte) []byte {
	switch {
	case s.Addr == netip.IPv4Unspecified():
		return append(b, "*4"...)
	case s.v6Only:
		return append(b, "*6only"...)
	case s.Addr == netip.IPv6Unspecified():
		return append(b, "*6"...)
	}
	return s.Addr.AppendTo(b)
}

// maxNameLength is the largest length of an abstract name (unix(7)). It is the size of the
// buffer in which Name makes a name.
const maxNameLength = 108

// Name returns the name of the Unix socket for this address and port; see unix(7). The
// '@' stands for the zero byte of an abstract name.
func (s BindAddr) Name() string {
	var b [maxNameLength]byte
	return string(s.appendName(b[:0]))
}

func (s BindAddr) appendName(b []byte) []byte {
	b = append(append(append(b, s.host.prefix...), s.ps.String()...), '/')
	b = strconv.AppendUint(append(s.appendHost(b), '/'), uint64(s.Port), 10)
	if s.Shared != 0 {
		b = strconv.AppendUint(append(b, sharedInfix...), uint64(s.Shared), 10)
	}
	return b
}

// sharedInfix is the part of a name before the number BindAddr.Shared.
const sharedInfix = "/shared/"

// ParseBindAddr returns the BindAddr with the given name. It returns false if no BindAddr
// of this host has this name. That can happen, because any process can bind any name.
func (h *Host) ParseBindAddr(ps cm.PortSpace, name string) (BindAddr, bool) {
	rest, ok := strings.CutPrefix(name, h.prefix+ps.String()+"/")
	host, digits, ok2 := strings.Cut(rest, "/")
	digits, number, shares := strings.Cut(digits, sharedInfix)
	port, err := strconv.ParseUint(digits, 10, 16)
	if !ok || !ok2 || err != nil {
		return BindAddr{}, false
	}
	s := BindAddr{host: h, ps: ps, Port: uint16(port)}
	if shares {
		// If the number is invalid, the name of s differs from the parameter name. The
		// last line of this function then returns false.
		n, _ := strconv.ParseUint(number, 10, 32)
		s.Shared = uint32(n)
	}
	switch host {
	case "*4":
		s.Addr = netip.IPv4Unspecified()
	case "*6", "*6only":
		s.Addr, s.v6Only = netip.IPv6Unspecified(), host == "*6only"
	default:
		s.Addr, _ = netip.ParseAddr(host)
	}
	var b [maxNameLength]byte
	return s, s.Addr == WithoutZone(s.Addr) && string(s.appendName(b[:0])) == name
}

// Wildcard reports whether the address is the IPv4 or an IPv6 wildcard.
func (s BindAddr) Wildcard() bool { return s.Addr.IsUnspecified() }

// Covers reports whether a listener on s gets the requests to an address and port.
func (s BindAddr) Covers(at netip.AddrPort) bool {
	addr := at.Addr()
	switch {
	case s.Port != at.Port():
		return false
	case s.Addr == netip.IPv4Unspecified():
		return addr.Is4()
	case s.Wildcard():
		return addr.Is6() || !s.v6Only
	}
	return s.Addr == addr
}

// overlaps reports whether listeners on s and o, with the same port, could receive the
// same request.
func (s BindAddr) overlaps(o BindAddr) bool {
	if s.Wildcard() && o.Wildcard() {
		takes4 := func(w BindAddr) bool { return w.Addr.Is4() || !w.v6Only }
		return s.Addr.Is6() && o.Addr.Is6() || takes4(s) && takes4(o)
	}
	if o.Wildcard() {
		s, o = o, s
	}
	return s.Covers(netip.AddrPortFrom(o.Addr, s.Port))
}

// MaxTargets is the number of addresses that Targets returns.
const MaxTargets = 3

// Targets returns the addresses at which a listener for dst can be: dst itself, then the
// wildcards that cover dst.
func (h *Host) Targets(ps cm.PortSpace, dst netip.AddrPort) [MaxTargets]BindAddr {
	s := h.NewBindAddr(ps, dst, false)
	w := s.wildcards()
	return [MaxTargets]BindAddr{s, w[0], w[1]}
}

// wildcards returns the wildcards that cover s. The address s must not be a wildcard.
func (s BindAddr) wildcards() [2]BindAddr {
	six := BindAddr{host: s.host, ps: s.ps, Addr: netip.IPv6Unspecified(), Port: s.Port}
	if s.Addr.Is4() {
		four := six
		four.Addr = netip.IPv4Unspecified()
		return [2]BindAddr{four, six}
	}
	sixOnly := six
	sixOnly.v6Only = true
	return [2]BindAddr{six, sixOnly}
}
