//go:build linux

package hostport

import (
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// RouteMTU returns the MTU in bytes of the route from a local address to dst, or 0 if it
// is not known. It is the MTU of the interface, or a smaller one that the route has or
// that routers have reported with ICMP (ip(7), IP_MTU). RouteMTU sends nothing.
func RouteMTU(local, dst netip.Addr) int {
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
