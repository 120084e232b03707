//go:build linux

package soft

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// errNoRouteAnswer: the system has not answered the request for a route, or its
// answer has an unknown format.
var errNoRouteAnswer = errors.New("no answer about a route")

// routeType asks the system how it would route a packet to an address, and returns
// the type of the route: unix.RTN_LOCAL for an address of this host. A link-local
// address without a zone is looked up on all interfaces. See rtnetlink(7),
// RTM_GETROUTE.
func routeType(a netip.Addr) (uint8, error) {
	answer, err := askKernel(unix.NETLINK_ROUTE, routeRequest(a))
	if err != nil {
		return 0, err
	}
	return parseRoute(answer)
}

// routeRequest returns a netlink header, struct rtmsg, and attributes.
func routeRequest(a netip.Addr) []byte {
	a = a.Unmap()
	family := byte(unix.AF_INET6)
	if a.Is4() {
		family = unix.AF_INET
	}
	b := make([]byte, unix.SizeofNlMsghdr+unix.SizeofRtMsg, 64)
	b[unix.SizeofNlMsghdr] = family
	b[unix.SizeofNlMsghdr+1] = byte(a.BitLen()) // the field rtm_dst_len
	b = appendAttr(b, unix.RTA_DST, a.AsSlice())
	if zone := zoneID(a.Zone()); zone != 0 {
		b = appendAttr(b, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, zone))
	}
	putNetlinkHeader(b, unix.RTM_GETROUTE, 0)
	return b
}

// appendAttr appends an attribute whose length is a multiple of 4.
func appendAttr(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	return append(b, value...)
}

// parseRoute returns the type of the route in an answer. If there is no route, it
// returns RTN_UNREACHABLE.
func parseRoute(b []byte) (uint8, error) {
	kind, body, err := openAnswer(b)
	switch {
	case errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH):
		return unix.RTN_UNREACHABLE, nil
	case errors.Is(err, errShortAnswer):
		return 0, errNoRouteAnswer
	case err != nil:
		return 0, err
	case kind != unix.RTM_NEWROUTE || len(body) < unix.SizeofRtMsg:
		return 0, errNoRouteAnswer
	}
	return body[7], nil // the field rtm_type
}
