//go:build linux

package hostile

import (
	"errors"
	"net"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// sendWrongReplies answers every connection request at Spec.From with a reject, random
// bytes or a random reply. If a connection opens nevertheless, it violates the protocol
// there.
func sendWrongReplies(a *attacker) error {
	s, err := openWire(a.spec.From)
	if err != nil {
		return err
	}
	defer s.close()
	go func() {
		<-a.ctx.Done()
		s.close()
	}()
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(s.in)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			// This may be an ICMP error for an earlier packet.
			continue
		}
		p, err := wire.Decode(s.in[:n])
		if err != nil || p.Opcode() != wire.UDSendOnly {
			continue
		}
		m, err := wire.DecodeMAD(p.Payload())
		if err != nil || m.Attribute() != wire.AttrREQ {
			continue
		}
		var r wire.REQ
		r.Decode(m)
		a.answerWrongly(s, &r, from.Addr())
	}
}

// answerWrongly sends a few wrong replies to one request.
func (a *attacker) answerWrongly(s *wireSocket, r *wire.REQ, to netip.Addr) {
	sent := 0
	for range 1 + a.rand.IntN(3) {
		var m wire.MAD
		reply := wire.REP{
			LocalID: a.rand.Uint32(), RemoteID: r.LocalID, QPN: a.rand.Uint32N(verbs.MaxQPNum + 1), CAGUID: r.CAGUID,
			StartPSN: psn.New(a.rand.Uint32()), ResponderResources: 255, InitiatorDepth: 255, RNRRetry: 7,
		}
		switch a.rand.IntN(5) {
		case 0: // a reject with a random reason
			j := wire.REJ{RemoteID: r.LocalID, Reason: uint16(a.rand.IntN(40))}
			copy(j.Info[:], a.bytes(len(j.Info)))
			j.InfoLength = uint8(a.rand.IntN(128))
			j.Encode(&m, uint64(r.LocalID))
		case 1: // a message that asks for more time
			w := wire.MRA{RemoteID: r.LocalID, ServiceTimeout: uint8(a.rand.IntN(8))}
			w.Encode(&m, uint64(r.LocalID))
		case 2: // a reply with some random bytes
			reply.Encode(&m, uint64(r.LocalID))
			for range 8 {
				m[wire.MADDataOffset+8+a.rand.IntN(100)] = byte(a.rand.Uint32())
			}
		// A reply with unusual values. It has the client's own GUID, which a server never
		// sends.
		default:
			reply.Encode(&m, uint64(r.LocalID))
		}
		sent += s.sendMAD(&m, to)
	}
	for range 10 {
		out := a.randomPacket(s, r.QPN)
		if a.rand.IntN(2) == 0 {
			out.BTH().SetPSN(r.StartPSN)
		}
		sent += s.send(out, to)
	}
	a.count(func(c *Attack) { c.Rounds++; c.Sent++; c.SentBytes += uint64(sent) })
}
