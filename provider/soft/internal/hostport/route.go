//go:build linux

package hostport

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"time"

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

// RouteMTU returns the MTU in bytes of the route from a local address to dst, or 0 if it
// is not known. It is the MTU of the interface, or a smaller one that the route has or
// that routers have reported with ICMP (ip(7), IP_MTU). RouteMTU sends nothing.
func (h *Host) RouteMTU(local, dst netip.Addr) int {
	if h.sim != nil {
		return h.sim.MTU()
	}
	fd, err := UDPSocket(dst)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	names := socketNames.Get().(*[2]SockaddrBuf)
	defer socketNames.Put(names)
	if unix.Bind(fd, names[0].Set(local, 0)) != nil || unix.Connect(fd, names[1].Set(dst, discardPort)) != nil {
		return 0
	}
	level, option := unix.IPPROTO_IP, unix.IP_MTU
	if !dst.Unmap().Is4() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	mtu, err := unix.GetsockoptInt(fd, level, option)
	if err != nil {
		return 0
	}
	return mtu
}

// socketNames has memory for the two addresses of RouteMTU, as *[2]SockaddrBuf.
var socketNames = sync.Pool{New: func() any { return new([2]SockaddrBuf) }}

// A LocalAddrCache remembers the answers of a Host about addresses for a second. It knows
// whether an address belongs to the host, and from which address the host sends to another
// host. Only one goroutine at a time may use it.
type LocalAddrCache struct {
	Host *Host // host to ask; must be set
	// time at which the oldest entry was made, as the parameter now has given it
	since   time.Duration
	known   map[netip.Addr]bool
	sources map[netip.Addr]netip.Addr // results of SourceFor, by destination
}

const (
	// localAddrTTL is how long an entry is valid. It is arbitrary.
	localAddrTTL = time.Second
	// maxLocalAddrs is the largest number of entries of each kind. Peers may name many
	// addresses of a local prefix. Arbitrary.
	maxLocalAddrs = 64
)

// Contains reports whether an address belongs to the host. The parameter now is the
// time since any fixed moment. The errors are those of Host.OnThisHost.
func (o *LocalAddrCache) Contains(a netip.Addr, now time.Duration) (bool, error) {
	if a.IsLoopback() {
		return true, nil
	}
	o.prepare(now)
	if is, ok := o.known[a]; ok {
		return is, nil
	}
	is, err := o.Host.OnThisHost(a)
	if err == nil {
		o.known[a] = is
	}
	return is, err
}

// SourceFor returns the address from which the host would send to dst. For the parameter
// now see Contains. The errors are those of Host.SourceFor.
func (o *LocalAddrCache) SourceFor(dst netip.Addr, now time.Duration) (netip.Addr, error) {
	o.prepare(now)
	if src, ok := o.sources[dst]; ok {
		return src, nil
	}
	src, err := o.Host.SourceFor(dst)
	if err == nil {
		o.sources[dst] = src
	}
	return src, err
}

// CheckOwn does what Host.CheckOwn does.
// If the cache knows that the address belongs to this host, CheckOwn does not ask the
// kernel. For the parameter now see Contains.
func (o *LocalAddrCache) CheckOwn(a netip.Addr, now time.Duration) error {
	a = a.Unmap()
	o.prepare(now)
	if o.known[a] {
		return nil
	}
	err := o.Host.CheckOwn(a)
	if err == nil {
		o.known[a] = true
	}
	return err
}

// prepare empties the cache if it is too old or full.
func (o *LocalAddrCache) prepare(now time.Duration) {
	if o.known == nil || now-o.since >= localAddrTTL || max(len(o.known), len(o.sources)) >= maxLocalAddrs {
		o.since, o.known, o.sources = now, make(map[netip.Addr]bool), make(map[netip.Addr]netip.Addr)
	}
}
