//go:build linux

package hostile

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// sendInvalidPackets sends invalid packets from Spec.From:
//
//   - random bytes
//   - packets with a wrong ICRC
//   - connection messages with random contents
//   - connection requests with a few changed bytes
//
// It also sends packets for random queue pairs, but from the address after Spec.From. A
// changed request may happen to open a connection for Spec.From. Then such a packet from
// Spec.From could be valid.
func sendInvalidPackets(a *attacker) error {
	s, err := openWire(a.spec.From)
	if err != nil {
		return err
	}
	defer s.close()
	other, err := openWire(a.spec.From.Next())
	if err != nil {
		return err
	}
	defer other.close()
	go a.countReplies(s)
	go a.countReplies(other)
	return a.eachRound(func() error {
		sent := 0
		for range floodBurst {
			sent += a.invalidPacket(s, other)
		}
		a.count(func(c *Attack) { c.Sent += floodBurst; c.SentBytes += uint64(sent) })
		return nil
	})
}

func (a *attacker) invalidPacket(s, other *wireSocket) int {
	to := a.spec.Addr.Addr()
	switch a.rand.IntN(5) {
	case 0: // random bytes
		return s.sendRaw(a.bytes(a.rand.IntN(1200)), to)
	case 1: // a packet with a wrong ICRC
		p := a.randomPacket(s, a.rand.Uint32N(verbs.MaxQPNum+1))
		return s.sendRaw(p.Bytes(), to)
	case 2: // a connection message with random contents after a valid header
		return s.sendMAD(a.randomMAD(), to)
	case 3: // a valid request with a few changed bytes
		p := newWirePeer(s, a.spec.Addr, a.rand)
		m := p.request()
		for range 1 + a.rand.IntN(3) {
			m[wire.MADDataOffset+a.rand.IntN(wire.MADDataSize)] = byte(a.rand.Uint32())
		}
		return s.sendMAD(m, to)
	default: // a packet whose destination is a random queue pair number
		return other.send(a.randomPacket(other, a.rand.Uint32N(verbs.MaxQPNum+1)), to)
	}
}

// randomMAD returns a connection message with random contents.
func (a *attacker) randomMAD() *wire.MAD {
	var m wire.MAD
	copy(m[:], a.bytes(len(m)))
	// Common MAD header: base version, class, class version and method (IBTA vol. 1,
	// 16.7.1).
	copy(m[:], []byte{1, 7, 2, 3})
	binary.BigEndian.PutUint16(m[4:], 0)
	binary.BigEndian.PutUint16(m[16:], uint16(wire.AttrREQ)+uint16(a.rand.IntN(11)))
	return &m
}

// Opcodes of reliable connections and of datagrams.
var opcodes = []wire.Opcode{
	wire.SendFirst, wire.SendMiddle, wire.SendLast, wire.SendLastImm, wire.SendOnly, wire.SendOnlyImm,
	wire.WriteFirst, wire.WriteMiddle, wire.WriteLast, wire.WriteLastImm, wire.WriteOnly, wire.WriteOnlyImm,
	wire.ReadRequest, wire.ReadResponseFirst, wire.ReadResponseMiddle, wire.ReadResponseLast,
	wire.ReadResponseOnly, wire.Acknowledge, wire.AtomicAcknowledge, wire.CompareSwap, wire.FetchAdd,
	wire.SendLastInv, wire.SendOnlyInv, wire.UDSendOnly, wire.UDSendOnlyImm, wire.CNP,
}

// randomPacket returns a packet for the queue pair qpn. Its opcode, headers and payload
// are random. The caller computes the ICRC.
func (a *attacker) randomPacket(s *wireSocket, qpn uint32) wire.Packet {
	op := opcodes[a.rand.IntN(len(opcodes))]
	payload := 0
	if op.FitsPayload(256, 256) {
		payload = 256
	}
	if op.FitsPayload(1, 256) {
		payload = 1 + a.rand.IntN(1024)
	}
	p := s.build(op, payload)
	for i := wire.BTHSize; i < len(p.Bytes()); i++ {
		p.Bytes()[i] = byte(a.rand.Uint32())
	}
	p.BTH().SetDestQP(qpn)
	p.BTH().SetPSN(psn.New(a.rand.Uint32()))
	p.BTH().SetAckReq(a.rand.IntN(2) == 0)
	return p
}

// violateProtocol opens connections one after another and violates the protocol on each.
// Most of its sequence numbers are near the expected one, so that the server does not
// just drop the packets.
func violateProtocol(a *attacker) error {
	s, err := openWire(a.spec.From)
	if err != nil {
		return err
	}
	defer s.close()
	return a.eachRound(func() error {
		p := newWirePeer(s, a.spec.Addr, a.rand)
		err := p.connect()
		a.count(func(c *Attack) {
			if err == nil {
				c.Admitted++
			} else {
				c.Refused++
			}
		})
		if err != nil {
			return nil
		}
		for range floodBurst {
			out := a.randomPacket(s, p.serverQPN)
			// One in eight sequence numbers is random. Of the others, half are the
			// expected one, and the rest are near it.
			if a.rand.IntN(8) > 0 {
				out.BTH().SetPSN(p.next.Add(a.rand.IntN(2) * (a.rand.IntN(64) - 32)))
			}
			sent := s.send(out, p.server.Addr())
			a.count(func(c *Attack) { c.Sent++; c.SentBytes += uint64(sent) })
			if a.rand.IntN(2) == 0 {
				p.next = p.next.Add(1)
			}
		}
		if !a.spec.NoDisconnect || a.rand.IntN(2) == 0 {
			p.disconnect()
		}
		return nil
	})
}

// inject opens a valid connection from Spec.From. Then it sends packets for this
// connection from the next address. They must not disturb the connection.
func inject(a *attacker) error {
	valid, err := openWire(a.spec.From)
	if err != nil {
		return err
	}
	defer valid.close()
	other, err := openWire(a.spec.From.Next())
	if err != nil {
		return err
	}
	defer other.close()
	p := newWirePeer(valid, a.spec.Addr, a.rand)
	if err := p.connect(); err != nil {
		return err
	}
	a.count(func(c *Attack) { c.Admitted++ })
	defer p.disconnect()
	return a.eachRound(func() error {
		sent := a.injectOnce(other, p)
		a.count(func(c *Attack) { c.Sent++; c.SentBytes += uint64(sent) })
		err := p.echo(a.bytes(64))
		if err == nil {
			a.count(func(c *Attack) { c.Received++ })
		}
		return err
	})
}

func (a *attacker) injectOnce(other *wireSocket, p *wirePeer) int {
	to := p.server.Addr()
	spoofed := *p
	spoofed.wireSocket = other
	var m wire.MAD
	switch a.rand.IntN(6) {
	case 0: // a new request with the connection's GUID and queue pair
		spoofed.id = a.rand.Uint32()
		return other.sendMAD(spoofed.request(), to)
	case 1: // a copy of the connection's request
		return other.sendMAD(spoofed.request(), to)
	case 2: // a request to disconnect
		r := wire.DREQ{LocalID: p.id, RemoteID: p.serverID, RemoteQPN: p.serverQPN}
		r.Encode(&m, uint64(p.id))
		return other.sendMAD(&m, to)
	case 3: // a reject
		r := wire.REJ{LocalID: p.id, RemoteID: p.serverID, Rejected: wire.AnsweredREP, Reason: 28}
		r.Encode(&m, uint64(p.id))
		return other.sendMAD(&m, to)
	case 4: // the packet that the server expects next
		out := other.build(wire.SendOnly, 64)
		out.BTH().SetDestQP(p.serverQPN)
		out.BTH().SetPSN(p.next)
		copy(out.Payload(), a.bytes(64))
		return other.send(out, to)
	default: // a NAK for a packet of the server
		out := other.build(wire.Acknowledge, 0)
		out.BTH().SetDestQP(p.serverQPN)
		out.BTH().SetPSN(p.first)
		out.AETH().Set(wire.NAK(wire.NAKRemoteAccess), 0)
		return other.send(out, to)
	}
}
