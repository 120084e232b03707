//go:build linux

package udp

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// A connectedSocket is a socket that packets leave by. It knows what the system writes
// into the identification field of IPv4, which the ICRC covers.
//
// A socket that is not connected, with IP_PMTUDISC_DO, has 0 there. One that is
// costs less for each packet, since the system finds the route once for all; and
// it counts the messages that it sends, from a random number on. With UDP_SEGMENT
// the segments of a message count on from its number, and the next message has
// the next number nevertheless.
type connectedSocket struct {
	fd      int
	local   netip.AddrPort
	counts  bool    // over IPv4, and connected
	message uint16  // what the next message has, if so
	watcher Watcher // watches the socket, or nil
}

// newConnectedSocket makes a socket that only sends, to one peer. Its port is any: in
// RoCEv2 the source port is there to tell flows apart, for routers and network
// cards that spread them, and answers do not go there (IBTA annex A17).
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
		c.counts = true
		c.message, err = probeIPID(c)
	}
	return err
}

// prepare has the system write what a destination wants into the IP header, and
// keep little of what comes to a socket that nobody reads.
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

// identification is that of a message to be sent, the first of which is 0.
func (c *connectedSocket) identification(message int) uint16 {
	if !c.counts {
		return 0
	}
	return c.message + uint16(message)
}

// sent: the system has taken so many messages.
func (c *connectedSocket) sent(messages int) { c.message += uint16(messages) }

// full reports whether there is no room for more. A UDP socket says that there is
// when half of its buffer is free.
func (c *connectedSocket) full() bool {
	room, err := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLOUT}}, 0)
	return room == 0 && err == nil
}

// watch has the shard woken, once, when it takes packets again.
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
