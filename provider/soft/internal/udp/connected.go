//go:build linux

package udp

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// A connectedSocket is a socket for sending. It is connected to one destination, or it
// is the shared socket of a localSocket. On a connected socket the kernel does not look
// up the route for each packet. This reduced the round-trip time to 0.86 of its value;
// see docs/performance.md.
//
// The ICRC covers the identification in the IPv4 header, so the sender must know the
// identification of each packet. On the shared socket it is always 0. On a connected
// socket the kernel numbers the messages, beginning with a random number.
//
// With UDP_SEGMENT a message has several packets. The packets of message n have the
// identifications n, n+1, n+2 and so on. But the next message still begins with n+1.
type connectedSocket struct {
	fd    int
	local netip.AddrPort
	// true if the socket is connected and uses IPv4; only then nextID is valid
	countsIDs bool
	nextID    uint16  // identification of the next message
	watcher   Watcher // watches the socket; nil until watch() is called
}

// newConnectedSocket opens a socket that only sends packets to one peer. The peer sends
// its answers to the RoCEv2 port, not to this socket (IBTA annex A17).
func newConnectedSocket(local netip.Addr, peer netip.AddrPort, h destHeader) (*connectedSocket, error) {
	fd, err := OpenSender(local)
	if err != nil {
		return nil, err
	}
	o := &connectedSocket{fd: fd}
	if err := o.connect(local, peer, h); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// connect connects the socket. Over IPv4 it also finds out the identification of the
// next message.
func (c *connectedSocket) connect(local netip.Addr, peer netip.AddrPort, h destHeader) (err error) {
	if err := c.prepare(h); err != nil {
		return err
	}
	if err := unix.Connect(c.fd, hostport.Sockaddr(peer.Addr(), int(peer.Port()))); err != nil {
		return err
	}
	if c.local, err = hostport.LocalAddr(c.fd); err != nil {
		return err
	}
	if local.Is4() {
		c.countsIDs = true
		c.nextID, err = probeIPID(c)
	}
	return err
}

// prepare sets the IP header fields. It also makes the receive buffer as small as
// possible, because the socket receives nothing.
func (c *connectedSocket) prepare(h destHeader) error {
	level, class, hops := unix.IPPROTO_IP, unix.IP_TOS, unix.IP_TTL
	if h.remote.Is6() {
		level, class, hops = unix.IPPROTO_IPV6, unix.IPV6_TCLASS, unix.IPV6_UNICAST_HOPS
	}
	if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 0); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(c.fd, level, class, int(h.trafficClass)); err != nil {
		return err
	}
	if h.hopLimit == 0 {
		return nil
	}
	return unix.SetsockoptInt(c.fd, level, hops, int(h.hopLimit))
}

// identification returns the identification of an unsent message. The parameter message
// is 0 for the next message, 1 for the message after it, and so on.
func (c *connectedSocket) identification(message int) uint16 {
	if !c.countsIDs {
		return 0
	}
	return c.nextID + uint16(message)
}

// sent records that the kernel has accepted messages. The parameter messages is their
// number.
func (c *connectedSocket) sent(messages int) { c.nextID += uint16(messages) }

// full reports whether the send buffer may be full, so that the kernel may have refused a
// message. The kernel reports a full buffer if more than half of the buffer is in use.
func (c *connectedSocket) full() bool {
	writable, err := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLOUT}}, 0)
	return writable == 0 && err == nil
}

// watch makes the Watcher w wake the owner once, when the kernel accepts messages again.
func (c *connectedSocket) watch(w Watcher, h fdevent.Handler) {
	const events = unix.EPOLLOUT | unix.EPOLLONESHOT
	if c.watcher != nil {
		w.Rewatch(c.fd, events)
	} else if w.Watch(c.fd, events, h) == nil {
		c.watcher = w
	} else {
		// Epoll can not watch the socket, so Signal keeps the owner from sleeping.
		w.Signal()
	}
}

func (c *connectedSocket) close() {
	if c.watcher != nil {
		c.watcher.Unwatch(c.fd)
	}
	_ = unix.Close(c.fd)
}
