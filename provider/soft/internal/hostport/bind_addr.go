//go:build linux

package hostport

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/rdmaloop/rdmaloop/cm"
)

// namePrefix begins every name. Abstract names belong to a network namespace, as IP
// addresses do. The number in the prefix is the version of the protocol that the sockets
// use.
const namePrefix = "@rdmaloop/1/"

// A BindAddr is the address and port that an ID binds: one address of the host, or a
// wildcard. Each BindAddr has a name, such as "@rdmaloop/1/tcp/127.0.0.1/7471". In the
// name, "*4" is the IPv4 wildcard, "*6" the IPv6 wildcard that accepts IPv4 too, and
// "*6only" the one that does not. The name of an ID that shares its port (REUSEADDR) ends
// with a number that distinguishes it from other IDs on the port, as in
// "@rdmaloop/1/tcp/127.0.0.1/7471/shared/9". Clients do not connect to such a name.
type BindAddr struct {
	ps     cm.PortSpace
	Addr   netip.Addr // address without a zone, and not IPv4-mapped
	v6Only bool       // true for the IPv6 wildcard without IPv4
	Port   uint16
	Shared uint32 // number of the ID on a shared port; 0 if not shared
}

// NewBindAddr returns the BindAddr of an address that a program binds. afOnly says that
// the IPv6 wildcard does not accept IPv4.
func NewBindAddr(ps cm.PortSpace, at netip.AddrPort, afOnly bool) BindAddr {
	addr := WithoutZone(at.Addr())
	return BindAddr{ps: ps, Addr: addr, v6Only: afOnly && addr == netip.IPv6Unspecified(), Port: at.Port()}
}

// WithoutZone returns an address without its zone, and an IPv4-mapped IPv6 address as
// IPv4. Addresses are compared and sent in this form.
func WithoutZone(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// host returns the address in the form that it has in a name.
func (s BindAddr) host() string {
	switch {
	case s.Addr == netip.IPv4Unspecified():
		return "*4"
	case s.v6Only:
		return "*6only"
	case s.Addr == netip.IPv6Unspecified():
		return "*6"
	}
	return s.Addr.String()
}

// Name returns the abstract name of the address and port, with '@' for the zero byte.
func (s BindAddr) Name() string {
	name := namePrefix + s.ps.String() + "/" + s.host() + "/" + strconv.Itoa(int(s.Port))
	if s.Shared != 0 {
		name += sharedInfix + strconv.FormatUint(uint64(s.Shared), 10)
	}
	return name
}

// sharedInfix precedes the number of a shared address in its name.
const sharedInfix = "/shared/"

// ParseBindAddr returns the BindAddr with a name. A process of any user can bind any
// name, so it accepts only names that Name would return.
func ParseBindAddr(ps cm.PortSpace, name string) (BindAddr, bool) {
	rest, ok := strings.CutPrefix(name, namePrefix+ps.String()+"/")
	host, digits, ok2 := strings.Cut(rest, "/")
	digits, number, shares := strings.Cut(digits, sharedInfix)
	port, err := strconv.ParseUint(digits, 10, 16)
	if !ok || !ok2 || err != nil {
		return BindAddr{}, false
	}
	s := BindAddr{ps: ps, Port: uint16(port)}
	if shares {
		n, _ := strconv.ParseUint(number, 10, 32) // 0 is not valid: its name would be another one
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
	return s, s.Addr == WithoutZone(s.Addr) && s.Name() == name
}

// Wildcard reports whether the address is the IPv4 or an IPv6 wildcard.
func (s BindAddr) Wildcard() bool { return s.Addr.IsUnspecified() }

// Covers reports whether a listener at s receives requests for an address and port.
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

// overlaps reports whether s and o, if they had the same port, would both receive
// requests for some address.
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

// MaxTargets is the largest number of addresses that Targets returns.
const MaxTargets = 3

// Targets returns what a listener for requests to dst may have bound: first the address
// itself, then the wildcards.
func Targets(ps cm.PortSpace, dst netip.AddrPort) []BindAddr {
	s := NewBindAddr(ps, dst, false)
	return append([]BindAddr{s}, s.wildcards()...)
}

// wildcards returns the wildcards that cover the address of s, which is no wildcard
// itself.
func (s BindAddr) wildcards() []BindAddr {
	six := BindAddr{ps: s.ps, Addr: netip.IPv6Unspecified(), Port: s.Port}
	if s.Addr.Is4() {
		return []BindAddr{{ps: s.ps, Addr: netip.IPv4Unspecified(), Port: s.Port}, six}
	}
	sixOnly := six
	sixOnly.v6Only = true
	return []BindAddr{six, sixOnly}
}
