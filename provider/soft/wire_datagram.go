//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// maxPortRoutes is how many routes a UD queue pair keeps open. A program that
// talks to more peers than that pays for opening them again.
const maxPortRoutes = 1024

// wirePort is the wire path of a UD queue pair.
type wirePort struct {
	q      *qp
	s      *wireShard
	seq    uint64
	routes map[route]*route
	homes  []*route // of the addresses that it can be reached at
	due    bool
	closed bool
}

func newWirePort(q *qp) *wirePort {
	p := &wirePort{q: q, s: &q.shard.wire, routes: make(map[route]*route)}
	p.s.attach(q.num, p)
	return p
}

// transmit: see path.
func (p *wirePort) transmit() {
	if !p.send() && !p.due {
		p.due = true
		p.s.due = append(p.s.due, p)
	}
	p.s.link.flush()
}

// work: see wireEnd.
func (p *wirePort) work() (done bool) {
	done = p.closed || p.send()
	p.due = !done
	return done
}

// send sends what is queued, and reports whether there was room for it. A
// datagram completes when it is out: nobody answers.
func (p *wirePort) send() (done bool) {
	q := p.q
	for w := q.toSend(); w != nil; w = q.toSend() {
		status := q.datagramFlaw(w)
		if status == verbs.StatusSuccess {
			var room bool
			if status, room = p.sendOne(w); !room {
				return false
			}
		}
		if status != verbs.StatusSuccess {
			q.spoil(w, status)
			break
		}
		q.sent(w, p.seq)
		p.seq++
		q.acknowledged(p.seq)
	}
	return true
}

func (p *wirePort) sendOne(w *wqe) (status verbs.Status, room bool) {
	to := p.route(&w.to.(*ah).to)
	if to == nil {
		return verbs.StatusLocQPOpErr, true
	}
	op := wire.UDSendOnly
	if w.op == verbs.OpSendImm {
		op = wire.UDSendOnlyImm
	}
	b := p.s.link.room(to, op.Size(int(w.total)))
	if b == nil {
		return verbs.StatusSuccess, false
	}
	pkt := wire.Build(b, op, int(w.total))
	if w.total > 0 && !p.q.gather(pkt.Payload(), w, 0) {
		return verbs.StatusLocProtErr, true
	}
	bth := pkt.BTH()
	bth.SetDestQP(w.toQPN)
	bth.SetPSN(number(psn.Value(p.q.attr.SQPSN), p.seq))
	bth.SetSolicited(w.flags&verbs.SendSolicited != 0)
	pkt.DETH().Set(w.toQKey, p.q.num)
	if h := pkt.ImmDt(); h != nil {
		h.Set(w.imm)
	}
	p.s.link.push(to, pkt)
	return verbs.StatusSuccess, true
}

// route is the opened route of an address handle, or nil.
func (p *wirePort) route(of *route) *route {
	if to := p.routes[*of]; to != nil {
		return to
	}
	if len(p.routes) == maxPortRoutes {
		p.closeRoutes()
	}
	to := new(route)
	*to = *of
	if p.s.link.open(to) != nil {
		return nil
	}
	p.routes[*of] = to
	return to
}

func (p *wirePort) closeRoutes() {
	for _, to := range p.routes {
		p.s.link.close(to)
	}
	clear(p.routes)
}

// reach makes the queue pair reachable at an address of this host.
func (p *wirePort) reach(local netip.Addr) error {
	home := &route{local: local, remote: local}
	if err := p.s.link.open(home); err != nil {
		return err
	}
	p.homes = append(p.homes, home)
	return nil
}

// reachAll makes a queue pair that was not told where to be reachable wherever
// the UDP port can be had.
func (p *wirePort) reachAll() error {
	if len(p.homes) > 0 {
		return nil
	}
	port, err := p.q.dev.Port(devicePort)
	if err != nil {
		return err
	}
	for _, gid := range port.GIDs {
		if failed := p.reach(gid.Addr()); failed != nil {
			err = failed
		}
	}
	if len(p.homes) > 0 {
		return nil
	}
	return err
}

// receive: see wireEnd. A sender may be anywhere.
func (p *wirePort) receive(pkt wire.Packet, from *arrival) {
	op := pkt.Opcode()
	if op.Transport() != wire.UD {
		return
	}
	d := datagram{
		qkey: pkt.DETH().QKey(), src: pkt.DETH().SrcQP(),
		solicited: pkt.BTH().Solicited(), payload: pkt.Payload(),
	}
	if h := pkt.ImmDt(); h != nil {
		d.hasImm, d.imm = true, h.Value()
	}
	d.header.Set(from.from, from.to, len(pkt.Bytes()), from.trafficClass, from.hopLimit)
	p.q.deliverDatagram(&d)
}

func (p *wirePort) resend()       {}
func (p *wirePort) collect() bool { return false }
func (p *wirePort) offer()        {}
func (p *wirePort) silence()      {}

// detach: see path.
func (p *wirePort) detach() {
	p.closed = true
	p.s.detach(p.q.num)
	p.closeRoutes()
	for _, home := range p.homes {
		p.s.link.close(home)
	}
	p.homes = nil
}

var _ path = (*wirePort)(nil)
