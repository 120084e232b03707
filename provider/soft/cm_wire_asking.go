//go:build linux

package soft

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// When no process has the UDP port of a peer, its host says so with an ICMP message
// (RFC 1122, 3.2.2.1; RFC 4443, 3.1), and the request will not be answered. Requests
// leave by a socket of their own, for two reasons. It has a port of its own: on the
// port that all sockets of an address share, the system gives the message to any of
// them. And an error that waits on a socket makes the next calls fail, which neither
// data nor answers should suffer from.

// An askingSocket sends requests from one local address, and gets the refusals. It
// receives nothing: answers go to the UDP port of RoCE (IBTA annex A17). One
// goroutine at a time.
type askingSocket struct {
	fd       int
	local    netip.AddrPort
	peerPort uint16 // of every peer
	psn      psn.Value
	counts   *counters
}

func (n *udpMADs) openAsking(local netip.Addr) (*askingSocket, error) {
	fd, err := openUDP(netip.AddrPortFrom(local, 0), false)
	if err != nil {
		return nil, err
	}
	s := &askingSocket{fd: fd, peerPort: n.ports.udpPort, counts: &n.ports.counts}
	if err := s.prepare(local); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// prepare has the system keep the errors, and nothing else: whatever is sent to the
// socket would take their place.
func (s *askingSocket) prepare(local netip.Addr) (err error) {
	if s.local, err = socketName(s.fd); err != nil {
		return err
	}
	level, option := unix.IPPROTO_IP, unix.IP_RECVERR
	if local.Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVERR
	}
	if err := unix.SetsockoptInt(s.fd, level, option, 1); err != nil {
		return err
	}
	return attachFilter(s.fd, unix.SO_ATTACH_FILTER, []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}})
}

func (s *askingSocket) close() { _ = unix.Close(s.fd) }

// sendTries is how often a request is sent when the system reports errors of earlier
// ones instead (ip(7), IP_RECVERR). What is lost is repeated.
const sendTries = 4

// send sends a request.
func (s *askingSocket) send(m *wire.MAD, to netip.Addr) {
	var b [madRoom]byte
	p := madPacket(b[:], m, s.psn)
	s.psn = s.psn.Add(1)
	var flow wire.Flow
	peer := netip.AddrPortFrom(to, s.peerPort)
	flow.Set(s.local, peer)
	flow.Seal(p, 0) // the identification: see udpOutlet
	name := sockaddr(to, int(s.peerPort))
	for range sendTries {
		err := unix.Sendto(s.fd, p.Bytes(), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, name)
		if err == nil {
			s.counts.add(sentPkts, 1)
			return
		}
		if errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	s.counts.add(sendErr, 1)
}

// An askingPort is the socket by which a madPort asks.
type askingPort struct {
	port   *madPort
	socket *askingSocket
}

// asks reports whether a message is a request, which may find nobody there.
func asks(m *wire.MAD) bool {
	return m.Attribute() == wire.AttrREQ || m.Attribute() == wire.AttrSIDRREQ
}

// readyToAsk opens the socket for requests, if it is not open, and has the channel
// take what it is told. Without the socket requests go by the one of all messages, and
// that nobody is there shows when nobody answers.
func (p *madPort) readyToAsk(ch *channel) {
	p.x.mu.Lock()
	defer p.x.mu.Unlock()
	if p.asking.Load() == nil {
		if socket, err := p.x.network.openAsking(p.local); err == nil && socket != nil {
			p.asking.Store(&askingPort{p, socket})
		}
	}
	ch.watchAsking(p)
}

// watchAsking has the channel take the refusals of a port, if there can be any.
func (ch *channel) watchAsking(p *madPort) {
	if a := p.asking.Load(); a != nil && ch.sources[int32(a.socket.fd)] == nil {
		// Without, another channel may take them, or they are not seen.
		_ = ch.watchErrors(a.socket.fd, a)
	}
}

// readable: see watched. There is an error to take.
func (a *askingPort) readable() {
	a.port.x.mu.Lock()
	defer a.port.x.mu.Unlock()
	a.socket.takeErrors(func(to netip.AddrPort, quoted []byte) { a.port.x.portClosed(a.port, to, quoted) })
}

var _ watched = (*askingPort)(nil)

// errorBatch is how many errors are taken in one look: an arbitrary bound. The
// descriptor stays readable when there are more.
const errorBatch = 64

// takeErrors hands on the refusals that have come: where the request went, and what
// the refusal quotes of it, from its first byte after the UDP header on.
func (s *askingSocket) takeErrors(to func(dst netip.AddrPort, quoted []byte)) {
	var quoted [madRoom]byte
	var control [512]byte // an error, and the address of who sent it
	for range errorBatch {
		n, used, _, name, err := unix.Recvmsg(s.fd, quoted[:], control[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err != nil {
			// An error for which there was no room in the queue is taken, too.
			_, _ = unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
			return
		}
		if dst, ok := nameOf(name); ok && dst.Port() == s.peerPort && portUnreachable(control[:used]) {
			to(dst, quoted[:n])
		}
	}
}

// portUnreachable reports whether the control messages of an error say that no process
// has the port: the ICMP message itself must, because there are reasons for the same
// errno that pass (ip(7), IP_RECVERR; struct sock_extended_err).
func portUnreachable(control []byte) bool {
	const origin, kind, code = 4, 5, 6 // places in the structure
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return false
	}
	for _, m := range messages {
		v4 := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR
		v6 := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_RECVERR
		if len(m.Data) < code+1 || !v4 && !v6 {
			continue
		}
		switch {
		case m.Data[origin] == unix.SO_EE_ORIGIN_ICMP:
			return m.Data[kind] == icmpUnreachable && m.Data[code] == icmpPort
		case m.Data[origin] == unix.SO_EE_ORIGIN_ICMP6:
			return m.Data[kind] == icmp6Unreachable && m.Data[code] == icmp6Port
		}
	}
	return false
}

// Types and codes of ICMP: RFC 792, and RFC 4443, 3.1.
const (
	icmpUnreachable, icmpPort   = 3, 3
	icmp6Unreachable, icmp6Port = 1, 4
)

// A quote is what identifies a request in what a refusal quotes of it.
type quote struct {
	attr wire.Attribute
	tid  uint64
	id   uint32 // of the connection, or of the lookup
}

// quoteOf reads a quote. A host may quote eight bytes of the UDP datagram only (RFC 792),
// so that there is none. Linux quotes up to 548 bytes, as RFC 1812, 4.3.2.3, asks for.
func quoteOf(quoted []byte) (q quote, ok bool) {
	const mad = wire.BTHSize + wire.DETHSize
	if len(quoted) < mad+wire.MADDataOffset+4 {
		return q, false
	}
	var m wire.MAD
	copy(m[:], quoted[mad:])
	return quote{m.Attribute(), m.TID(), firstID(&m)}, true
}

// portClosed: the host of a peer says that nobody is there. Anybody can say so, in the
// name of every host. So it counts only for a request that was sent there and that it
// quotes, with the random id and the transaction; and never for a connection. Without a
// quote the request ends when nobody answers.
func (x *madExchange) portClosed(port *madPort, by netip.AddrPort, quoted []byte) {
	q, quotes := quoteOf(quoted)
	if !quotes {
		return
	}
	if c := x.carriers[q.id]; c != nil && c.port == port && c.remote == plain(by.Addr()) {
		c.leave(jobMessage, func() { c.nobodyThere(by, q) })
	}
}

// nobodyThere ends a request that waits for its answer, if it is the one that is
// quoted.
func (c *wireCarrier) nobodyThere(at netip.AddrPort, q quote) {
	m := &c.repeat.mad
	waits := c.id != nil && c.id.phase == phaseRequestSent && asks(m)
	if waits && q == (quote{m.Attribute(), m.TID(), c.own}) {
		c.portIsFree(at)
	}
}

// portIsFree ends a request, since nobody can answer it.
func (c *wireCarrier) portIsFree(at netip.AddrPort) {
	c.id.unreachable(statusRefused, fmt.Errorf("no process has UDP port %d of %v: %w", at.Port(), at.Addr(), unix.ECONNREFUSED))
}
