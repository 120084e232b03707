//go:build linux

package udp

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// A connectedSocket is a socket through which packets are sent. It is the shared socket
// of a localSocket, which is not connected, or a socket that is connected to one
// destination.
//
// For a connected socket, the kernel does not look up the route of each packet. That
// changed the round trip by the factor 0.86; see bench/README.md.
//
// The ICRC covers the identification field of the IPv4 header, so the sender must know
// its value. On a socket that is not connected, with IP_PMTUDISC_DO, the kernel writes 0.
// On a connected socket the kernel counts the messages, from a random number on. With
// UDP_SEGMENT, the first segment of a message has the number of the message and the
// others have the following numbers. The next message has the number after that of this
// message nevertheless.
type connectedSocket struct {
	fd        int
	local     netip.AddrPort
	countsIDs bool    // the socket is connected and uses IPv4
	nextID    uint16  // identification of the next message, if countsIDs
	watcher   Watcher // watches the socket, or nil
}

// newConnectedSocket opens a socket that only sends, to one peer. It sends from any free
// port. In RoCEv2 routers and network cards use the source port to distribute flows, and
// answers are not sent to it (IBTA annex A17).
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

// connect connects the socket, and finds out the identification of the first message over
// IPv4.
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

// prepare sets the fields of the IP header for a destination. It also sets the smallest
// receive buffer, because nobody reads the socket.
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

// identification returns the identification of a message that is to be sent. message
// counts the messages from the next one, which is 0.
func (c *connectedSocket) identification(message int) uint16 {
	if !c.countsIDs {
		return 0
	}
	return c.nextID + uint16(message)
}

// sent records that the system has accepted messages.
func (c *connectedSocket) sent(messages int) { c.nextID += uint16(messages) }

// full reports whether the system does not accept more messages now. A UDP socket is
// writable when half of its send buffer is free.
func (c *connectedSocket) full() bool {
	writable, err := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLOUT}}, 0)
	return writable == 0 && err == nil
}

// watch makes w wake the owner, once, when the system accepts messages again.
func (c *connectedSocket) watch(w Watcher, h EventHandler) {
	const events = unix.EPOLLOUT | unix.EPOLLONESHOT
	if c.watcher != nil {
		w.Rewatch(c.fd, events)
	} else if w.Watch(c.fd, events, h) == nil {
		c.watcher = w
	} else {
		w.Signal() // the owner tries again to send
	}
}

func (c *connectedSocket) close() {
	if c.watcher != nil {
		c.watcher.Unwatch(c.fd)
	}
	_ = unix.Close(c.fd)
}
