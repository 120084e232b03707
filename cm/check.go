package cm

import (
	"math"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// MaxTimeout is the longest timeout of ResolveAddr and ResolveRoute, about 25 days. In
// C, the timeout is an int of milliseconds. Source: rdma_resolve_addr(3),
// rdma_resolve_route(3).
const MaxTimeout = math.MaxInt32 * time.Millisecond

// atMost returns a *verbs.ParamError if the value is too large.
func atMost[T int | uint8 | uint32 | time.Duration](field string, value, limit T) error {
	if value > limit {
		return &verbs.ParamError{Field: field, Value: int64(value), Limit: int64(limit)}
	}
	return nil
}

// invalid returns the error of an argument that breaks a rule. The reason names the
// rule.
func invalid(field string, value int, reason string) error {
	return &verbs.ParamError{Field: field, Value: int64(value), Reason: reason}
}

// missing returns the error of an argument that is nil.
func missing(field string) error {
	return &verbs.ParamError{Field: field, NotNumber: true, Reason: "missing"}
}

// badAddr returns the error of an address. The text is "ADDRESS is REASON".
func badAddr(field string, addr netip.Addr, reason string) error {
	return &verbs.ParamError{Field: field, NotNumber: true, Reason: addr.String() + " is " + reason}
}

func checkPortSpace(ps PortSpace) error {
	if ps != TCP && ps != UDP {
		return invalid("port space", int(ps), "neither TCP nor UDP")
	}
	return nil
}

func checkPrivateData(ps PortSpace, m Message, data []byte) error {
	return atMost("private data length", len(data), MaxPrivateData(ps, m))
}

func checkTimeout(d time.Duration) error {
	if d <= 0 {
		return &verbs.ParamError{Field: "timeout", Value: int64(d), Limit: int64(MaxTimeout), Reason: "must be more than 0"}
	}
	return atMost("timeout", d, MaxTimeout)
}

// family returns the IP version of an address: 4, 6, or 0 for the zero Addr.
func family(a netip.Addr) int {
	switch {
	case a.Is4():
		return 4
	case a.Is6():
		return 6
	}
	return 0
}

// unmap converts an IPv4-mapped IPv6 address to IPv4.
func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// errNoAddr reports a zero netip.Addr.
var errNoAddr = &verbs.ParamError{Field: "address", NotNumber: true, Reason: "the address is not valid"}

// checkLocal checks an address for Bind. Wildcards are allowed.
func checkLocal(addr netip.AddrPort) error {
	if !addr.Addr().IsValid() {
		return errNoAddr
	}
	if addr.Addr().IsMulticast() {
		return badAddr("address", addr.Addr(), "a multicast address, to which an ID can not be bound")
	}
	return nil
}

// checkRemote checks the addresses of ResolveAddr. A zero src is allowed.
func checkRemote(ps PortSpace, src, dst netip.AddrPort) error {
	want := family(dst.Addr())
	switch {
	case want == 0:
		return errNoAddr
	case dst.Addr().IsUnspecified():
		return badAddr("destination", dst.Addr(), "the wildcard address, which is not a destination")
	case ps == TCP && dst.Addr().IsMulticast():
		return badAddr("destination", dst.Addr(), "a multicast address, to which no connection is possible")
	case src == netip.AddrPort{}:
		return nil
	case family(src.Addr()) != want:
		return &verbs.ParamError{Field: "source family", Value: int64(family(src.Addr())), Limit: int64(want), Reason: "not the family of the destination"}
	}
	return checkLocal(src)
}

// checkQP checks the arguments of CreateQP, except the sizes in attr.Caps. The device
// checks the sizes.
func checkQP(ps PortSpace, dev verbs.Device, pd verbs.PD, attr *verbs.QPInitAttr) error {
	switch {
	case pd == nil:
		return missing("protection domain")
	case attr == nil:
		return missing("attributes")
	case attr.SendCQ == nil:
		return missing("send CQ")
	case attr.RecvCQ == nil:
		return missing("receive CQ")
	case attr.Type != ps.QPType():
		return &verbs.ParamError{Field: "QP type", Value: int64(attr.Type), Limit: int64(ps.QPType()), Reason: "not the type of the port space"}
	case pd.Device() != dev:
		return verbs.ErrForeign
	}
	return nil
}
