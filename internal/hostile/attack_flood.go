//go:build linux

package hostile

import (
	"errors"
	"net"
	"sync"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// Requests in one round. Arbitrary.
const floodBurst = 100

// flood sends connection requests from many addresses and never answers the replies.
// Attack.Received counts the server's packets.
func flood(a *attacker) error {
	sockets, err := a.openSources()
	var counting sync.WaitGroup
	defer func() {
		for _, s := range sockets {
			s.close()
		}
		counting.Wait()
	}()
	if err != nil {
		return err
	}
	for _, s := range sockets {
		counting.Go(func() { a.countReplies(s) })
	}
	next := 0
	err = a.eachRound(func() error {
		sent := 0
		for range floodBurst {
			p := newWirePeer(sockets[next%len(sockets)], a.spec.Addr, a.rand)
			sent += p.sendMAD(p.request(), a.spec.Addr.Addr())
			next++
		}
		a.count(func(c *Attack) { c.Sent += floodBurst; c.SentBytes += uint64(sent) })
		return nil
	})
	if err != nil {
		return err
	}
	a.waitForStop()
	return nil
}

// openSources opens a socket on each of Spec.Sources consecutive addresses. The first is
// Spec.From.
func (a *attacker) openSources() (sockets []*wireSocket, err error) {
	addr := a.spec.From
	for range max(a.spec.Sources, 1) {
		s, err := openWire(addr)
		if err != nil {
			return sockets, err
		}
		sockets = append(sockets, s)
		addr = addr.Next()
	}
	return sockets, nil
}

// countReplies counts the packets at a socket until it is closed.
func (a *attacker) countReplies(s *wireSocket) {
	b := make([]byte, wire.MaxPacket)
	for {
		n, _, err := s.conn.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// This may be an ICMP error for an earlier packet.
			continue
		}
		a.count(func(c *Attack) { c.Received++; c.ReceivedBytes += uint64(n) })
	}
}

// holdConnections opens connections from one address and sends nothing on them.
// Attack.Admitted counts them.
func holdConnections(a *attacker) error {
	s, err := openWire(a.spec.From)
	if err != nil {
		return err
	}
	defer s.close()
	var kept []*wirePeer
	err = a.eachRound(func() error {
		p := newWirePeer(s, a.spec.Addr, a.rand)
		err := p.connect()
		a.count(func(c *Attack) {
			if err == nil {
				c.Admitted++
			} else {
				c.Refused++
			}
		})
		if err == nil {
			kept = append(kept, p)
		}
		return nil
	})
	if err != nil {
		return err
	}
	a.waitForStop()
	for _, p := range kept {
		p.disconnect()
	}
	return nil
}
