//go:build linux

package hostile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// A wireSocket is an attacker's UDP socket on the RoCEv2 port of one address.
type wireSocket struct {
	conn  *net.UDPConn
	local netip.AddrPort
	in    []byte
	out   []byte
}

func openWire(local netip.Addr) (*wireSocket, error) {
	// With IP_PMTUDISC_DO, the identification in the IPv4 header is 0. The ICRC covers
	// the identification: see wire.Flow.Seal.
	control := func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		})
		return errors.Join(failed, err)
	}
	at := netip.AddrPortFrom(local, wire.UDPPort)
	conn, err := (&net.ListenConfig{Control: control}).ListenPacket(context.Background(), "udp4", at.String())
	if err != nil {
		return nil, err
	}
	return &wireSocket{
		conn: conn.(*net.UDPConn), local: at,
		in: make([]byte, wire.MaxPacket), out: make([]byte, wire.MaxPacket),
	}, nil
}

func (s *wireSocket) close() { _ = s.conn.Close() }

// build begins a packet in the socket's buffer.
func (s *wireSocket) build(op wire.Opcode, payload int) wire.Packet {
	return wire.Build(s.out, op, payload)
}

// send seals and sends a packet, and returns its length in bytes. An error is ignored, as
// if the network had lost the packet.
func (s *wireSocket) send(p wire.Packet, to netip.Addr) int {
	dst := netip.AddrPortFrom(to, wire.UDPPort)
	var f wire.Flow
	f.Set(s.local, dst)
	f.Seal(p, 0)
	return s.sendRaw(p.Bytes(), to)
}

func (s *wireSocket) sendRaw(b []byte, to netip.Addr) int {
	n, _ := s.conn.WriteToUDPAddrPort(b, netip.AddrPortFrom(to, wire.UDPPort))
	return n
}

// sendMAD sends a message of the connection manager.
func (s *wireSocket) sendMAD(m *wire.MAD, to netip.Addr) int {
	p := s.build(wire.UDSendOnly, wire.MADSize)
	p.BTH().SetDestQP(wire.GSIQPN)
	p.DETH().Set(wire.GSIQKey, wire.GSIQPN)
	copy(p.Payload(), m[:])
	return s.send(p, to)
}

// receive waits for a valid packet until the deadline. Invalid packets are dropped.
func (s *wireSocket) receive(deadline time.Time) (p wire.Packet, err error) {
	if err := s.conn.SetReadDeadline(deadline); err != nil {
		return p, err
	}
	for {
		n, _, err := s.conn.ReadFromUDPAddrPort(s.in)
		if err != nil {
			return p, err
		}
		if p, err = wire.Decode(s.in[:n]); err == nil {
			return p, nil
		}
	}
}

// A wirePeer is the attacker's end of one connection. It builds every packet itself.
type wirePeer struct {
	*wireSocket
	server netip.AddrPort
	guid   uint64
	id     uint32 // communication ID of this peer
	qpn    uint32
	first  psn.Value // PSN of the server's first request

	serverID  uint32
	serverQPN uint32
	next      psn.Value // PSN of the next request to the server
	mtu       int

	// ACK timeout code and transport retry count in the connection request; both sides of
	// the connection use them
	ackTimeout, retries uint8
	private             []byte // private data of the connection request, at most 56 bytes
}

func newWirePeer(s *wireSocket, server netip.AddrPort, r *rand.Rand) *wirePeer {
	return &wirePeer{
		wireSocket: s, server: server, guid: r.Uint64(), id: r.Uint32() | 1,
		qpn: 2 + r.Uint32N(1<<23), first: psn.New(r.Uint32()), mtu: 256,
		ackTimeout: 18, retries: 7,
	}
}

// request returns the peer's REQ, with the smallest path MTU. Source: IBTA vol. 1,
// 12.6.5.
func (p *wirePeer) request() *wire.MAD {
	const mtu256, timeout = 1, 18
	r := wire.REQ{
		LocalID: p.id, ServiceID: wire.NewServiceID(0x0106, p.server.Port()), CAGUID: p.guid,
		QPN: p.qpn, StartPSN: p.first, ResponderResources: 1, InitiatorDepth: 1,
		RemoteTimeout: timeout, LocalTimeout: timeout, RetryCount: p.retries, RNRRetry: 7, MaxCMRetries: 15,
		PKey: wire.DefaultPKey, MTU: mtu256,
		Primary: wire.Path{
			LocalLID: 0xffff, RemoteLID: 0xffff, HopLimit: 64, AckTimeout: p.ackTimeout,
			LocalGID: wire.NewGID(p.local.Addr()), RemoteGID: wire.NewGID(p.server.Addr()),
		},
	}
	header := wire.CMAHeader{SrcPort: uint16(p.id), Src: p.local.Addr(), Dst: p.server.Addr()}
	copy(header.Encode(r.PrivateData[:]), p.private)
	var m wire.MAD
	r.Encode(&m, uint64(p.id))
	return &m
}

var errRefused = errors.New("the server rejected the connection")

// connect opens the connection. If the server rejects it, the error is errRefused.
func (p *wirePeer) connect() error {
	const repeatAfter, attempts = 500 * time.Millisecond, 40
	for range attempts {
		p.sendMAD(p.request(), p.server.Addr())
		for deadline := time.Now().Add(repeatAfter); ; {
			in, err := p.receive(deadline)
			if err != nil {
				break
			}
			if done, err := p.onReply(in); done {
				return err
			}
		}
	}
	return fmt.Errorf("no answer to a connection request from %v", p.local)
}

// onReply handles a packet that arrives while the peer connects. After a REP it sends an
// RTU. After a REJ it returns errRefused.
func (p *wirePeer) onReply(in wire.Packet) (done bool, err error) {
	if in.Opcode() != wire.UDSendOnly {
		return false, nil
	}
	m, err := wire.DecodeMAD(in.Payload())
	if err != nil {
		return false, nil
	}
	switch m.Attribute() {
	case wire.AttrREJ:
		var r wire.REJ
		if r.Decode(m); r.RemoteID == p.id {
			return true, errRefused
		}
	case wire.AttrREP:
		var r wire.REP
		if r.Decode(m); r.RemoteID != p.id {
			return false, nil
		}
		p.serverID, p.serverQPN, p.next = r.LocalID, r.QPN, r.StartPSN
		p.sendRTU()
		return true, nil
	}
	return false, nil
}

func (p *wirePeer) sendRTU() {
	r := wire.RTU{LocalID: p.id, RemoteID: p.serverID}
	var m wire.MAD
	r.Encode(&m, uint64(p.id))
	p.sendMAD(&m, p.server.Addr())
}

// disconnect sends DREQs until a DREP arrives, for at most 10 s.
func (p *wirePeer) disconnect() {
	const repeatAfter, attempts = 250 * time.Millisecond, 40
	r := wire.DREQ{LocalID: p.id, RemoteID: p.serverID, RemoteQPN: p.serverQPN}
	var m wire.MAD
	r.Encode(&m, uint64(p.id))
	for range attempts {
		p.sendMAD(&m, p.server.Addr())
		for deadline := time.Now().Add(repeatAfter); ; {
			in, err := p.receive(deadline)
			if err != nil {
				break
			}
			if p.confirms(in) {
				return
			}
		}
	}
}

// confirms reports whether the packet is the DREP for this peer.
func (p *wirePeer) confirms(in wire.Packet) bool {
	if in.Opcode() != wire.UDSendOnly {
		return false
	}
	m, err := wire.DecodeMAD(in.Payload())
	if err != nil || m.Attribute() != wire.AttrDREP {
		return false
	}
	var r wire.DREP
	r.Decode(m)
	return r.RemoteID == p.id
}

// post sends one request packet on the connection.
func (p *wirePeer) post(op wire.Opcode, payload []byte) int {
	out := p.build(op, len(payload))
	out.BTH().SetDestQP(p.serverQPN)
	out.BTH().SetPSN(p.next)
	out.BTH().SetAckReq(true)
	copy(out.Payload(), payload)
	p.next = p.next.Add(1)
	return p.send(out, p.server.Addr())
}

// acknowledge sends an ACK for the server's request.
func (p *wirePeer) acknowledge(num psn.Value) {
	out := p.build(wire.Acknowledge, 0)
	out.BTH().SetDestQP(p.serverQPN)
	out.BTH().SetPSN(num)
	out.AETH().Set(wire.AckNoCredits, psn.New(uint32(num-p.first)+1))
	p.send(out, p.server.Addr())
}

// echo sends a message and waits for its echo.
func (p *wirePeer) echo(payload []byte) error {
	const repeatAfter, attempts = 500 * time.Millisecond, 40
	num := p.next
	for range attempts {
		p.next = num
		p.post(wire.SendOnly, payload)
		for deadline := time.Now().Add(repeatAfter); ; {
			in, err := p.receive(deadline)
			if err != nil {
				break
			}
			if in.BTH().DestQP() != p.qpn || in.Opcode() != wire.SendOnly {
				continue
			}
			p.acknowledge(in.BTH().PSN())
			if string(in.Payload()) == string(payload) {
				return nil
			}
		}
	}
	return fmt.Errorf("no echo to %v: the connection is broken", p.local)
}
