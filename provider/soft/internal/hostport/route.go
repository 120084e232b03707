//go:build linux

package hostport

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/netlink"
)

// errNoRouteAnswer means that the kernel's answer is not complete, or has an unknown
// format.
var errNoRouteAnswer = errors.New("no answer about a route")

// routeType returns the type of the kernel's route to an address, for example
// unix.RTN_LOCAL (rtnetlink(7), RTM_GETROUTE).
func routeType(a netip.Addr) (uint8, error) {
	answer, err := netlink.Ask(unix.NETLINK_ROUTE, routeRequest(a))
	if err != nil {
		return 0, err
	}
	return parseRoute(answer)
}

// routeRequest returns a request for the route to an address: a netlink header, a struct
// rtmsg, and attributes.
func routeRequest(a netip.Addr) []byte {
	a = a.Unmap()
	family := byte(unix.AF_INET6)
	if a.Is4() {
		family = unix.AF_INET
	}
	b := make([]byte, unix.SizeofNlMsghdr+unix.SizeofRtMsg, 64)
	b[unix.SizeofNlMsghdr] = family
	b[unix.SizeofNlMsghdr+1] = byte(a.BitLen()) // the field rtm_dst_len of struct rtmsg
	b = netlink.AppendAttr(b, unix.RTA_DST, a.AsSlice())
	if zone := ZoneID(a.Zone()); zone != 0 {
		b = netlink.AppendAttr(b, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, zone))
	}
	netlink.PutHeader(b, unix.RTM_GETROUTE, 0)
	return b
}

// parseRoute returns the type of the route in the answer, or RTN_UNREACHABLE if there is
// no route.
func parseRoute(b []byte) (uint8, error) {
	kind, body, err := netlink.Parse(b)
	switch {
	case errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH):
		return unix.RTN_UNREACHABLE, nil
	case errors.Is(err, netlink.ErrShort):
		return 0, errNoRouteAnswer
	case err != nil:
		return 0, err
	case kind != unix.RTM_NEWROUTE || len(body) < unix.SizeofRtMsg:
		return 0, errNoRouteAnswer
	}
	return body[7], nil // the field rtm_type of struct rtmsg
}
