//go:build linux

package hostile

import (
	"errors"
	"net"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// misanswer answers every connection request that comes to From, and no client gets
// an honest server there: the replies are refusals, random, or right but for random
// fields, and packets that break the rules follow on the connections that come about.
// Rounds counts the requests.
func misanswer(a *attacker) error {
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
			continue // such as the ICMP error to an earlier packet
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
		a.misanswerOnce(s, &r, from.Addr())
	}
}

// misanswerOnce answers a request in one of several wrong ways.
func (a *attacker) misanswerOnce(s *wireSocket, r *wire.REQ, to netip.Addr) {
	sent := 0
	for range 1 + a.rand.IntN(3) {
		var m wire.MAD
		reply := wire.REP{
			LocalID: a.rand.Uint32(), RemoteID: r.LocalID, QPN: a.rand.Uint32N(1 << 24), CAGUID: r.CAGUID,
			StartPSN: psn.New(a.rand.Uint32()), ResponderResources: 255, InitiatorDepth: 255, RNRRetry: 7,
		}
		switch a.rand.IntN(5) {
		case 0: // a refusal for any reason
			j := wire.REJ{RemoteID: r.LocalID, Reason: uint16(a.rand.IntN(40))}
			copy(j.Info[:], a.bytes(len(j.Info)))
			j.InfoLength = uint8(a.rand.IntN(128))
			j.Encode(&m, uint64(r.LocalID))
		case 1: // the wish for more time
			w := wire.MRA{RemoteID: r.LocalID, ServiceTimeout: uint8(a.rand.IntN(8))}
			w.Encode(&m, uint64(r.LocalID))
		case 2: // a reply with random bytes in it
			reply.Encode(&m, uint64(r.LocalID))
			for range 8 {
				m[wire.MADDataOffset+8+a.rand.IntN(100)] = byte(a.rand.Uint32())
			}
		default: // a good reply, with the client's own GUID, and what it does not expect
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
