//go:build linux

package hostport

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/rdmaloop/rdmaloop/cm"
)

// namePrefix is the beginning of the name of every BindAddr. Processes in different
// network namespaces may use the same name, because each network namespace has abstract
// names of its own. The number in the prefix is the version of the protocol that
// processes speak on the sockets with these names.
const namePrefix = "@rdmaloop/1/"

// A BindAddr is the address and port that a cm.ID binds. The address is one address of
// the host, or a wildcard.
//
// Each BindAddr has a name, such as "@rdmaloop/1/tcp/127.0.0.1/7471". In a name, "*4" is
// the IPv4 wildcard. "*6" is the IPv6 wildcard that also accepts IPv4, and "*6only" is
// the IPv6 wildcard that does not. Several IDs can share a port (REUSEADDR). Their names
// end with a number that differs between them, as in
// "@rdmaloop/1/tcp/127.0.0.1/7471/shared/9". Clients do not connect to such a name.
type BindAddr struct {
	ps     cm.PortSpace
	Addr   netip.Addr // an address without a zone; never an IPv4-mapped one
	v6Only bool       // true for the IPv6 wildcard that does not accept IPv4
	Port   uint16
	Shared uint32 // number of this ID on a shared port; 0 if the port is not shared
}

// NewBindAddr returns the BindAddr for an address that a program binds. If afOnly is
// true, the IPv6 wildcard does not accept IPv4.
func NewBindAddr(ps cm.PortSpace, at netip.AddrPort, afOnly bool) BindAddr {
	addr := WithoutZone(at.Addr())
	return BindAddr{ps: ps, Addr: addr, v6Only: afOnly && addr == netip.IPv6Unspecified(), Port: at.Port()}
}

// WithoutZone removes the zone of an address, and converts an IPv4-mapped IPv6 address to
// an IPv4 address. Addresses are compared and sent in this form.
func WithoutZone(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// host returns the part of the name that stands for the address.
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

// Name returns the name in the abstract namespace, with '@' in place of the initial zero
// byte.
func (s BindAddr) Name() string {
	name := namePrefix + s.ps.String() + "/" + s.host() + "/" + strconv.Itoa(int(s.Port))
	if s.Shared != 0 {
		name += sharedInfix + strconv.FormatUint(uint64(s.Shared), 10)
	}
	return name
}

// sharedInfix stands in a name before the number of an ID on a shared port.
const sharedInfix = "/shared/"

// ParseBindAddr returns the BindAddr with the given name. A process of any user can bind
// any name, so ParseBindAddr checks the whole name: it returns false unless the method
// Name of the result returns exactly this name.
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
		// If the number is 0 or invalid, Name returns another name, so the comparison
		// below fails.
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
	return s, s.Addr == WithoutZone(s.Addr) && s.Name() == name
}

// Wildcard reports whether the address is the IPv4 or an IPv6 wildcard.
func (s BindAddr) Wildcard() bool { return s.Addr.IsUnspecified() }

// Covers reports whether a listener that has bound the address s receives the connection
// requests that clients send to the given address and port.
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

// overlaps reports whether two listeners on the addresses of s and o, with the same
// port, would both receive the requests that clients send to some address.
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

// Targets returns the addresses that a listener may have bound to receive requests for
// dst: first dst itself, then the wildcards.
func Targets(ps cm.PortSpace, dst netip.AddrPort) []BindAddr {
	s := NewBindAddr(ps, dst, false)
	return append([]BindAddr{s}, s.wildcards()...)
}

// wildcards returns the wildcards that cover the address of s. That address must not be a
// wildcard.
func (s BindAddr) wildcards() []BindAddr {
	six := BindAddr{ps: s.ps, Addr: netip.IPv6Unspecified(), Port: s.Port}
	if s.Addr.Is4() {
		return []BindAddr{{ps: s.ps, Addr: netip.IPv4Unspecified(), Port: s.Port}, six}
	}
	sixOnly := six
	sixOnly.v6Only = true
	return []BindAddr{six, sixOnly}
}
