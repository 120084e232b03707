//go:build linux

package hostile

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// sendMalformed sends malformed packets to the listener, each on a new connection.
// Attack.Refused counts the connections that the server closed.
func sendMalformed(a *attacker) error {
	return a.eachRound(func() error {
		s, err := newLocalSocket()
		if err != nil {
			return err
		}
		defer s.close()
		dst := a.spec.Addr
		if err := s.connect(localName(dst.Addr().String(), dst.Port())); err != nil {
			return err
		}
		sent := a.malformedPacket(s)
		hungUp := s.waitForClose()
		a.count(func(c *Attack) {
			c.Sent++
			c.SentBytes += uint64(sent)
			if hungUp {
				c.Refused++
			}
		})
		return nil
	})
}

// malformedPacket sends one malformed packet and returns its length.
func (a *attacker) malformedPacket(s localSocket) int {
	good := localRequest(netip.AddrPortFrom(a.spec.Addr.Addr(), 1), a.spec.Addr)
	switch a.rand.IntN(7) {
	case 0: // random bytes
		return s.send(a.bytes(1 + a.rand.IntN(4000)))
	case 1: // a request with some random bytes
		copy(good[1+a.rand.IntN(20):], a.bytes(40))
		return s.send(good)
	case 2: // the first half of a request
		return s.send(good[:1+a.rand.IntN(localHeader-1)])
	case 3: // a request with another protocol version
		good[0] = byte(localVersion + 1 + a.rand.IntN(250))
		return s.send(good)
	case 4: // a request with too much private data
		return s.send(append(good, a.bytes(300)...))
	// A request with 253 descriptors. A packet can not have more (SCM_MAX_FD of unix(7)).
	case 5:
		var fds [253]int
		for i := range fds {
			fds[i] = s.fd
		}
		return s.send(good, fds[:]...)
	default: // a message that is not a request
		good[1] = byte(1 + a.rand.IntN(255))
		return s.send(good)
	}
}

func (a *attacker) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(a.rand.Uint32())
	}
	return b
}

// maxKept is the number of sockets that the attacker keeps open, unless the limit of open
// descriptors is lower. Arbitrary.
const maxKept = 4000

// exhaust opens one connection in each round and keeps it open. After maxKept sockets, it
// closes the oldest one first.
func exhaust(a *attacker) error {
	raiseDescriptors()
	var kept []localSocket
	defer func() {
		for _, s := range kept {
			s.close()
		}
	}()
	port := uint16(a.rand.Uint32())
	err := a.eachRound(func() error {
		if len(kept) == maxKept {
			kept[0].close()
			kept = kept[1:]
		}
		s, err := newLocalSocket()
		if err != nil {
			// Without a free descriptor, this round opens no socket.
			return nil
		}
		src := netip.AddrPortFrom(a.spec.Addr.Addr(), s.bindNext(a.spec.Addr.Addr(), &port))
		kept = append(kept, s)
		a.requestAndKeep(s, src)
		return nil
	})
	if err != nil {
		return err
	}
	a.waitForStop()
	return nil
}

// bindNext binds the socket to the name of an address and the next free port. It stores
// the port and returns it.
func (s localSocket) bindNext(at netip.Addr, port *uint16) uint16 {
	for range 1 << 16 {
		if *port++; *port != 0 && s.bind(localName(at.String(), *port)) == nil {
			break
		}
	}
	return *port
}

// requestAndKeep sends a connection request and counts whether the server accepts it. The
// descriptors in the answer stay open.
func (a *attacker) requestAndKeep(s localSocket, src netip.AddrPort, private ...byte) {
	limit := unix.NsecToTimeval(int64(time.Second))
	dst := a.spec.Addr
	if unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit) != nil ||
		s.connect(localName(dst.Addr().String(), dst.Port()), localName("*4", dst.Port())) != nil {
		a.count(func(c *Attack) { c.Refused++ })
		return
	}
	sent := s.send(localRequest(src, dst, private...))
	got, ok := s.receive()
	a.count(func(c *Attack) {
		c.Sent++
		c.SentBytes += uint64(sent)
		if ok && got.kind == localREP {
			c.Admitted++
		} else {
			c.Refused++
		}
	})
}

// raiseDescriptors raises this process's limit of open descriptors to the maximum.
func raiseDescriptors() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		// If this fails, the attack keeps fewer sockets open.
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
}
