//go:build linux

package soft

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/rdmaloop/rdmaloop/cm"
)

// namePrefix begins the name of every socket of the rendezvous, in the abstract
// namespace of unix(7), which belongs to the network namespace as the addresses
// do. The number is that of the protocol spoken.
const namePrefix = "@rdmaloop/1/"

// A spot is the address and port that an ID binds: one address of the host, or a
// wildcard. Each spot has a socket name, such as "@rdmaloop/1/tcp/127.0.0.1/7471". In
// the name, "*4" is the IPv4 wildcard, "*6" the IPv6 wildcard that takes IPv4 too,
// and "*6only" the one that does not. The name of an ID that shares its port
// (REUSEADDR) ends with a number that distinguishes it from other IDs on the port, as
// in "@rdmaloop/1/tcp/127.0.0.1/7471/shared/9". Nobody connects to such a name.
type bindAddr struct {
	ps     cm.PortSpace
	addr   netip.Addr // neither an IPv4-mapped address nor one with a zone
	v6Only bool       // true for the IPv6 wildcard without IPv4
	port   uint16
	shared uint32 // number of the ID on a shared port; 0 if not shared
}

// newBindAddr is the spot of an address as a user gives it.
func newBindAddr(ps cm.PortSpace, at netip.AddrPort, afOnly bool) bindAddr {
	addr := withoutZone(at.Addr())
	return bindAddr{ps: ps, addr: addr, v6Only: afOnly && addr == netip.IPv6Unspecified(), port: at.Port()}
}

// plain is the address without a zone, and as IPv4 if it is mapped IPv4: the
// form in which addresses are compared, and travel.
func withoutZone(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func (s bindAddr) host() string {
	switch {
	case s.addr == netip.IPv4Unspecified():
		return "*4"
	case s.v6Only:
		return "*6only"
	case s.addr == netip.IPv6Unspecified():
		return "*6"
	}
	return s.addr.String()
}

func (s bindAddr) name() string {
	name := namePrefix + s.ps.String() + "/" + s.host() + "/" + strconv.Itoa(int(s.port))
	if s.shared != 0 {
		name += sharedInfix + strconv.FormatUint(uint64(s.shared), 10)
	}
	return name
}

// sharedInfix precedes the number of a shared spot in its name.
const sharedInfix = "/shared/"

// parseBindAddr is the inverse of name. Names may be anybody's: only those that name
// would make are taken.
func parseBindAddr(ps cm.PortSpace, name string) (bindAddr, bool) {
	rest, ok := strings.CutPrefix(name, namePrefix+ps.String()+"/")
	host, digits, ok2 := strings.Cut(rest, "/")
	digits, number, shares := strings.Cut(digits, sharedInfix)
	port, err := strconv.ParseUint(digits, 10, 16)
	if !ok || !ok2 || err != nil {
		return bindAddr{}, false
	}
	s := bindAddr{ps: ps, port: uint16(port)}
	if shares {
		n, _ := strconv.ParseUint(number, 10, 32) // 0 is not valid: its name would be another one
		s.shared = uint32(n)
	}
	switch host {
	case "*4":
		s.addr = netip.IPv4Unspecified()
	case "*6", "*6only":
		s.addr, s.v6Only = netip.IPv6Unspecified(), host == "*6only"
	default:
		s.addr, _ = netip.ParseAddr(host)
	}
	return s, s.addr == withoutZone(s.addr) && s.name() == name
}

func (s bindAddr) wildcard() bool { return s.addr.IsUnspecified() }

// covers reports whether a request for the address and port is one for the spot.
func (s bindAddr) covers(at netip.AddrPort) bool {
	addr := at.Addr()
	switch {
	case s.port != at.Port():
		return false
	case s.addr == netip.IPv4Unspecified():
		return addr.Is4()
	case s.wildcard():
		return addr.Is6() || !s.v6Only
	}
	return s.addr == addr
}

// overlaps reports whether there is an address that both spots cover, ports
// aside. Wildcards of families that share no address do not clash.
func (s bindAddr) overlaps(o bindAddr) bool {
	if s.wildcard() && o.wildcard() {
		takes4 := func(w bindAddr) bool { return w.addr.Is4() || !w.v6Only }
		return s.addr.Is6() && o.addr.Is6() || takes4(s) && takes4(o)
	}
	if o.wildcard() {
		s, o = o, s
	}
	return s.covers(netip.AddrPortFrom(o.addr, s.port))
}

// maxTargets is the largest number of spots that targets returns.
const maxTargets = 3

// targets are the spots at which a listener for dst may be, the closest first.
func targets(ps cm.PortSpace, dst netip.AddrPort) []bindAddr {
	s := newBindAddr(ps, dst, false)
	return append([]bindAddr{s}, s.wildcards()...)
}

// wildcards returns the wildcard spots that cover the address of s, which is no
// wildcard itself.
func (s bindAddr) wildcards() []bindAddr {
	six := bindAddr{ps: s.ps, addr: netip.IPv6Unspecified(), port: s.port}
	if s.addr.Is4() {
		return []bindAddr{{ps: s.ps, addr: netip.IPv4Unspecified(), port: s.port}, six}
	}
	sixOnly := six
	sixOnly.v6Only = true
	return []bindAddr{six, sixOnly}
}
