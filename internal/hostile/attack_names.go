//go:build linux

package hostile

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// squat listens on the socket name of exactly Spec.Addr. Clients of Spec.Addr try this
// name before the server's wildcard address. As soon as squat() listens, it sets
// Attack.Rounds to 1. Attack.Received counts the packets from clients.
func squat(a *attacker) error {
	s, err := newLocalSocket()
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.bind(localName(a.spec.Addr.Addr().String(), a.spec.Addr.Port())); err != nil {
		return fmt.Errorf("the socket name is not free: %w", err)
	}
	if err := unix.Listen(s.fd, 64); err != nil {
		return err
	}
	if err := unix.SetNonblock(s.fd, true); err != nil {
		return err
	}
	a.count(func(c *Attack) { c.Rounds++ })
	for a.ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, 10); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		client, _, err := unix.Accept4(s.fd, unix.SOCK_CLOEXEC)
		if err != nil {
			continue
		}
		a.receiveFrom(localSocket{client})
	}
	return nil
}

// receiveFrom counts the packets of a client for 50 ms, or until the client closes the
// connection. That is long enough for the client's request.
func (a *attacker) receiveFrom(s localSocket) {
	defer s.close()
	limit := unix.NsecToTimeval(50e6)
	if unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit) != nil {
		return
	}
	b := make([]byte, 4096)
	for {
		n := 0
		err := uninterrupted(func() (err error) {
			n, err = unix.Read(s.fd, b)
			return err
		})
		if err != nil || n == 0 {
			return
		}
		a.count(func(c *Attack) { c.Received++; c.ReceivedBytes += uint64(n) })
	}
}

// spoof sends requests with four false source addresses in turn:
//
//   - an address of another host
//   - an address of this host with a port that the attacker has not bound
//   - the address of the server
//   - an address with port 0
//
// Attack.Admitted counts the requests that the server accepted.
func spoof(a *attacker) error {
	dst := a.spec.Addr
	sources := []netip.AddrPort{
		// No host has this address, which is reserved for documentation (RFC 5737).
		netip.MustParseAddrPort("203.0.113.7:22"),
		netip.AddrPortFrom(dst.Addr(), 1),
		dst,
		netip.MustParseAddrPort("127.0.0.1:0"),
	}
	n := 0
	return a.eachRound(func() error {
		if a.spec.OwnAddress {
			return a.requestFromOwn()
		}
		src := sources[n%len(sources)]
		n++
		return a.request(src, dst, "")
	})
}

// requestFromOwn sends a request with the attacker's true address.
func (a *attacker) requestFromOwn() error {
	src := netip.AddrPortFrom(a.spec.Addr.Addr(), uint16(10000+a.rand.IntN(50000)))
	return a.request(src, a.spec.Addr, localName(src.Addr().String(), src.Port()))
}

// request sends one request on a new connection and counts whether the server accepts it.
// If the parameter name is not empty, the socket is bound to this name first.
func (a *attacker) request(src, dst netip.AddrPort, name string) error {
	s, err := newLocalSocket()
	if err != nil {
		return err
	}
	defer s.close()
	if name != "" {
		err := s.bind(name)
		if errors.Is(err, unix.EADDRINUSE) {
			// The port is used by another socket. The next round tries another port.
			return nil
		}
		if err != nil {
			return err
		}
	}
	if err := s.connect(localName(dst.Addr().String(), dst.Port()), localName("*4", dst.Port())); err != nil {
		return err
	}
	sent := s.send(localRequest(src, dst))
	got, ok := s.receive()
	got.close()
	a.count(func(c *Attack) {
		c.Sent++
		c.SentBytes += uint64(sent)
		if ok {
			c.Received++
			c.ReceivedBytes += uint64(got.size)
		}
		if ok && got.kind == localREP {
			c.Admitted++
		} else {
			c.Refused++
		}
	})
	return nil
}
