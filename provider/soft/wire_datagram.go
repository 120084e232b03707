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
	routes map[route]*route
	homes  []*route // of the addresses that it can be reached at
	placed bool     // connection management knows where it is to be reached
}

func newWirePort(q *qp) *wirePort {
	return &wirePort{q: q, s: &q.shard.wire, routes: make(map[route]*route)}
}

// sendOne sends a datagram with the number of a sequence, or reports that there is
// no room for it now.
func (p *wirePort) sendOne(w *wqe, along *ah, seq uint64) (status verbs.Status, room bool) {
	to := p.route(&along.to)
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
	bth.SetPSN(number(psn.Value(p.q.attr.SQPSN), seq))
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
	to.curious = true
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
	home := &route{local: local, remote: local, curious: true}
	if err := p.s.link.open(home); err != nil {
		return err
	}
	p.homes = append(p.homes, home)
	return nil
}

// reachAll makes a queue pair without a given address reachable at every address
// whose UDP port the device can open. If the device has the local path, it leaves
// loopback addresses to that, and does not fail if it can open none. It does not
// serve addresses that the host is given later. A queue pair that was made on an ID
// is reachable at the address of the ID instead, and a listener follows the
// addresses.
func (p *wirePort) reachAll() error {
	if p.placed || len(p.homes) > 0 {
		return nil
	}
	port, err := p.q.dev.Port(devicePort)
	if err != nil {
		return err
	}
	both := p.q.dev.cfg.Path == PathAuto
	for _, gid := range port.GIDs {
		addr := gid.Addr()
		if both && (addr.IsLoopback() || addr.IsLinkLocalUnicast()) {
			continue
		}
		if failed := p.reach(addr); failed != nil {
			err = failed
		}
	}
	if both || len(p.homes) > 0 {
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

// detach gives up the routes.
func (p *wirePort) detach() {
	p.s.detach(p.q.num)
	p.closeRoutes()
	for _, home := range p.homes {
		p.s.link.close(home)
	}
	p.homes = nil
}
