//go:build linux

package hostile

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// A Hold says how an attacker delays a READ.
type Hold string

// Ways to delay a READ.
const (
	HoldSilent  Hold = "silent"  // no answer, with the longest ACK timeout
	HoldRNR     Hold = "RNR"     // an RNR NAK for every request
	HoldTrickle Hold = "trickle" // one packet of the response at a time, with pauses
)

// tricklePause is the pause between two packets of HoldTrickle. It is shorter than the
// ACK timeout of a connection.
const tricklePause = 50 * time.Millisecond

// A heldRead is a READ of the server that HoldTrickle answers.
type heldRead struct {
	peer   *wirePeer
	next   psn.Value // PSN of the next packet of the response
	left   int       // bytes that were not sent
	opcode wire.Opcode
}

// holdLong opens Spec.Conns connections, announces a long message on each, and delays the
// READs of the server as Spec.Hold says. Attack.Received counts the READs.
func holdLong(a *attacker) error {
	s, err := openWire(a.spec.From)
	if err != nil {
		return err
	}
	defer s.close()
	peers := make(map[uint32]*wirePeer)
	for range a.spec.Conns {
		p := newWirePeer(s, a.spec.Addr, a.rand)
		p.private = longOffer(1<<32 - 1)
		p.ackTimeout = 16 // 268 ms (IBTA vol. 1, 11.6.2)
		if a.spec.Hold == HoldSilent {
			p.ackTimeout = 31 // 2.4 hours
		}
		if err := p.connect(); err != nil {
			a.count(func(c *Attack) { c.Refused++ })
			continue
		}
		a.count(func(c *Attack) { c.Admitted++ })
		peers[p.qpn] = p
		p.announceLong(uint32(a.spec.MaxLongMessage))
	}
	a.done.happen()
	reads := make(map[uint32]*heldRead)
	for trickled := time.Now(); a.ctx.Err() == nil; {
		in, err := s.receive(time.Now().Add(tricklePause))
		if time.Since(trickled) > tricklePause {
			trickled = time.Now()
			for _, r := range reads {
				r.send()
			}
		}
		p := (*wirePeer)(nil)
		if err == nil {
			p = peers[in.BTH().DestQP()]
		}
		if p == nil {
			continue
		}
		if in.Opcode() != wire.ReadRequest {
			p.acknowledge(in.BTH().PSN())
			continue
		}
		a.count(func(c *Attack) { c.Received++ })
		switch a.spec.Hold {
		case HoldRNR:
			p.refuse(in.BTH().PSN())
		case HoldTrickle:
			if reads[p.qpn] == nil {
				reads[p.qpn] = &heldRead{p, in.BTH().PSN(), int(in.RETH().Length()), wire.ReadResponseFirst}
			}
		}
	}
	return nil
}

// announceLong announces a long message of n bytes.
func (p *wirePeer) announceLong(n uint32) {
	control := longControl(longAnnounce, 0, longSegment{length: n})
	out := p.build(wire.SendOnlyImm, len(control))
	out.BTH().SetDestQP(p.serverQPN)
	out.BTH().SetPSN(p.next)
	out.BTH().SetAckReq(true)
	out.ImmDt().Set(longFirstImm)
	copy(out.Payload(), control)
	p.next = p.next.Add(1)
	p.send(out, p.server.Addr())
}

// refuse answers a request of the server with an RNR NAK and a delay of 0.49 s (IBTA vol.
// 1, 9.7.5.2.8).
func (p *wirePeer) refuse(num psn.Value) {
	out := p.build(wire.Acknowledge, 0)
	out.BTH().SetDestQP(p.serverQPN)
	out.BTH().SetPSN(num)
	out.AETH().Set(wire.RNRNAK(31), 0)
	p.send(out, p.server.Addr())
}

// send sends the next packet of the response.
func (r *heldRead) send() {
	if r.left <= r.peer.mtu {
		return // The last packet is never sent.
	}
	out := r.peer.build(r.opcode, r.peer.mtu)
	out.BTH().SetDestQP(r.peer.serverQPN)
	out.BTH().SetPSN(r.next)
	if h := out.AETH(); h != nil {
		h.Set(wire.AckNoCredits, 1)
	}
	r.peer.send(out, r.peer.server.Addr())
	r.next, r.left, r.opcode = r.next.Add(1), r.left-r.peer.mtu, wire.ReadResponseMiddle
}
