//go:build linux

package madcm

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/capture"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

// A host sends an ICMP error if a request arrives for a UDP port that belongs to no
// process (RFC 1122, 3.2.2.1; RFC 4443, 3.1).
//
// Requests are sent from a socket that shares its UDP port with no other socket.
// Otherwise the system could report the ICMP error to another socket.

// A RequestSocket sends requests from one local address and receives the ICMP errors
// about them. It receives no datagrams. Only one goroutine at a time may use it.
type RequestSocket struct {
	fd       int
	local    netip.AddrPort
	peerPort uint16    // UDP port of all peers
	psn      psn.Value // packet sequence number of the next request
	counts   *counters.Set
	tap      *capture.Tap     // records the requests; may be nil
	packet   [PacketSize]byte // buffer for the request that is sent
	flow     wire.Flow        // addresses and ports of the request that is sent
	name     hostport.SockaddrBuf
}

// OpenRequests implements Network.
func (n *udpNetwork) OpenRequests(local netip.Addr) (*RequestSocket, error) {
	fd, err := udp.OpenSender(local)
	if err != nil {
		return nil, err
	}
	s := &RequestSocket{fd: fd, peerPort: n.port, counts: n.counts, tap: n.ports.Tap}
	if err := s.prepare(local); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// prepare makes the system queue the ICMP errors of the socket, and drop datagrams that
// are sent to it.
func (s *RequestSocket) prepare(local netip.Addr) (err error) {
	if s.local, err = hostport.LocalAddr(s.fd); err != nil {
		return err
	}
	level, option := unix.IPPROTO_IP, unix.IP_RECVERR
	if local.Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVERR
	}
	if err := unix.SetsockoptInt(s.fd, level, option, 1); err != nil {
		return err
	}
	return udp.DropAll(s.fd)
}

func (s *RequestSocket) close() { _ = unix.Close(s.fd) }

// sendTries is the largest number of calls of sendto(2) for one request. A call fails if
// it reports an earlier ICMP error (ip(7), IP_RECVERR). The number is arbitrary.
const sendTries = 4

// send sends a request. If an error occurs, the request is lost.
func (s *RequestSocket) send(m *wire.MAD, to netip.Addr) {
	clear(s.packet[:])
	s.flow = wire.Flow{}
	p := Packet(s.packet[:], m, s.psn)
	s.psn = s.psn.Add(1)
	peer := netip.AddrPortFrom(to, s.peerPort)
	s.flow.Set(s.local, peer)
	s.flow.Seal(p, 0) // 0 is the IP identification of the packet; see udp.OpenSender.
	name := s.name.Set(to, int(s.peerPort))
	for range sendTries {
		err := unix.Sendto(s.fd, p.Bytes(), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, name)
		if err == nil {
			s.counts.Add(counters.SentPkts, 1)
			if s.tap != nil {
				s.tap.Packet(capture.Outbound, &capture.Header{From: s.local, To: peer}, p.Bytes())
			}
			return
		}
		if errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	s.counts.Add(counters.SendErr, 1)
}

// A requestPort reads the ICMP errors of a RequestSocket, and passes them to the
// connections of a port.
type requestPort struct {
	port   *port
	socket *RequestSocket
}

// openRequestPort opens the RequestSocket of the port, and makes the channel watch it.
// Without a RequestSocket, requests are sent from the socket.
func (p *port) openRequestPort(ch *channel) {
	p.mux.mu.Lock()
	defer p.mux.mu.Unlock()
	if p.requests.Load() == nil {
		if socket, err := p.mux.Network.OpenRequests(p.local); err == nil && socket != nil {
			p.requests.Store(&requestPort{p, socket})
		}
	}
	ch.watchRequests(p)
}

// watchRequests makes the channel watch the RequestSocket of a port, if the port has one.
func (ch *channel) watchRequests(p *port) {
	if a := p.requests.Load(); a != nil && !ch.Watches(a.socket.fd) {
		// After an error, ICMP errors are not read, and a request to a closed port times out.
		_ = ch.WatchErrors(a.socket.fd, a)
	}
}

// OnReady implements fdevent.Handler. It reads the ICMP errors.
func (r *requestPort) OnReady(int, uint32) {
	r.port.mux.mu.Lock()
	defer r.port.mux.mu.Unlock()
	r.socket.readErrors(func(to netip.AddrPort, quoted []byte) { r.port.mux.onPortUnreachable(r.port, to, quoted) })
}

var _ fdevent.Handler = (*requestPort)(nil)

// errorBatch is the largest number of ICMP errors that one call of readErrors reads. The
// number is arbitrary.
const errorBatch = 64

// readErrors reads ICMP errors. For each error that reports an unreachable port, it calls
// handle() with the destination of the request and the part of the request that the error
// quotes.
func (s *RequestSocket) readErrors(handle func(dst netip.AddrPort, quoted []byte)) {
	var quoted [PacketSize]byte
	var control [512]byte // room for one error and the address of its sender
	for range errorBatch {
		n, used, _, name, err := unix.Recvmsg(s.fd, quoted[:], control[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err != nil {
			// An ICMP error that did not fit in the error queue is pending on the
			// socket. Reading SO_ERROR clears it.
			_, _ = unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
			return
		}
		if dst, ok := hostport.AddrOf(name); ok && dst.Port() == s.peerPort && isPortUnreachable(control[:used]) {
			handle(dst, quoted[:n])
		}
	}
}

// isPortUnreachable reports whether the control messages have an ICMP error about a port
// that belongs to no process. It checks the ICMP type and code, because some temporary
// errors have the same errno (ip(7), IP_RECVERR).
func isPortUnreachable(control []byte) bool {
	const origin, kind, code = 4, 5, 6 // offsets in struct sock_extended_err
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

// ICMP types and codes (RFC 792; RFC 4443, 3.1).
const (
	icmpUnreachable, icmpPort   = 3, 3
	icmp6Unreachable, icmp6Port = 1, 4
)

// A quotedMAD identifies the request that an ICMP error quotes.
type quotedMAD struct {
	attr wire.Attribute
	tid  uint64
	id   uint32 // communication ID in a REQ, or request ID in a SIDR_REQ
}

// quoteOf decodes the part of a request that an ICMP error quotes. It returns false if
// the part is too short: a host may quote only eight bytes (RFC 792).
func quoteOf(quoted []byte) (q quotedMAD, ok bool) {
	const mad = wire.BTHSize + wire.DETHSize
	if len(quoted) < mad+wire.MADDataOffset+4 {
		return q, false
	}
	var m wire.MAD
	copy(m[:], quoted[mad:])
	return quotedMAD{m.Attribute(), m.TID(), firstID(&m)}, true
}

// onPortUnreachable handles an ICMP error about a request to dst. A forged error has no
// effect unless it quotes an unanswered request.
func (mux *Mux) onPortUnreachable(port *port, dst netip.AddrPort, quoted []byte) {
	q, quotes := quoteOf(quoted)
	if !quotes {
		return
	}
	if c := mux.conns[q.id]; c != nil && c.port == port && c.remote == hostport.WithoutZone(dst.Addr()) {
		c.enqueue(job{kind: jobMessage, conn: c, run: func(j *job) { j.conn.onPortUnreachable(dst, q) }})
	}
}

// onPortUnreachable handles an ICMP error that says that no process has the peer's UDP
// port. If the error quotes the request of this connection, and if the peer has not
// answered, onPortUnreachable ends the request.
func (c *conn) onPortUnreachable(at netip.AddrPort, q quotedMAD) {
	m := &c.retransmit.mad
	waits := c.state != connOrphan && c.id.State() == connmgr.StateREQSent && isRequest(m)
	if waits && q == (quotedMAD{m.Attribute(), m.TID(), c.ownID}) {
		c.id.Refused(fmt.Errorf("no process has UDP port %d of %v: %w", at.Port(), at.Addr(), unix.ECONNREFUSED))
	}
}
