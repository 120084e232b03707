//go:build linux

package udpath

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// maxUDRoutes limits the open routes of a UD queue pair. When the limit is reached, all
// routes are closed. Arbitrary.
const maxUDRoutes = 1024

// wirePath is the wire path of a UD queue pair. It belongs to the shard.
type wirePath struct {
	localAddrs hostport.LocalAddrCache // addresses of this host, whose datagrams are refused
	all        *Sockets
	q          *qp.QP
	demux      *packets.Demux
	routes     map[udp.Route]*udp.Route
	// routes for receiving, one for each local address
	reachableAt []*udp.Route
	hasAddress  bool // true after receiveAt; listenAtAll then does nothing
}

func newWirePath(all *Sockets, q *qp.QP) *wirePath {
	return &wirePath{localAddrs: hostport.LocalAddrCache{Host: all.Host}, all: all, q: q, demux: &all.shard.Demux, routes: make(map[udp.Route]*udp.Route)}
}

// sendOne sends the request w as a datagram with the sequence seq. If the packets.Conn has
// no room, the result room is false.
func (p *wirePath) sendOne(w *qp.WQE, along *qp.AH, seq uint64) (status verbs.Status, room bool) {
	to := p.route(&along.To)
	if to == nil {
		return verbs.StatusLocQPOpErr, true
	}
	op := wire.UDSendOnly
	if w.Op == verbs.OpSendImm {
		op = wire.UDSendOnlyImm
	}
	b := p.demux.Buffer(to, op.Size(int(w.Total)))
	if b == nil {
		return verbs.StatusSuccess, false
	}
	pkt := wire.Build(b, op, int(w.Total))
	if w.Total > 0 && !p.q.Gather(pkt.Payload(), w, 0) {
		return verbs.StatusLocProtErr, true
	}
	bth := pkt.BTH()
	bth.SetDestQP(w.UD.QPN)
	bth.SetPSN(packets.PSNOf(psn.Value(p.q.Attributes().SQPSN), seq))
	bth.SetSolicited(w.Flags&verbs.SendSolicited != 0)
	pkt.DETH().Set(w.UD.QKey, p.q.Num())
	if h := pkt.ImmDt(); h != nil {
		h.Set(w.Imm)
	}
	p.demux.Push(to, pkt)
	return verbs.StatusSuccess, true
}

// route returns the open route of an address handle, or nil if it can not be opened.
func (p *wirePath) route(of *udp.Route) *udp.Route {
	if to := p.routes[*of]; to != nil {
		return to
	}
	if len(p.routes) == maxUDRoutes {
		p.closeRoutes()
	}
	to := new(udp.Route)
	*to = *of
	to.WantHeader = true
	if p.demux.Open(to) != nil {
		return nil
	}
	p.routes[*of] = to
	return to
}

func (p *wirePath) closeRoutes() {
	for _, to := range p.routes {
		p.demux.Close(to)
	}
	clear(p.routes)
}

// listenAt makes the queue pair receive datagrams at an address of this host.
func (p *wirePath) listenAt(local netip.Addr) error {
	home := &udp.Route{Local: local, Remote: local, WantHeader: true}
	if err := p.demux.Open(home); err != nil {
		return err
	}
	p.reachableAt = append(p.reachableAt, home)
	return nil
}

// receiveAt makes the queue pair receive at one address only, or at none if the address
// is zero.
func (p *wirePath) receiveAt(at netip.Addr) error {
	p.hasAddress = true
	if !at.IsValid() {
		return nil
	}
	return p.listenAt(at)
}

// listenAtAll makes the queue pair receive at all addresses of this host. It does
// nothing after a call of receiveAt. If the device has both paths, it leaves out loopback
// and link-local addresses, and ignores an error of listenAt.
func (p *wirePath) listenAtAll() error {
	if p.hasAddress || len(p.reachableAt) > 0 {
		return nil
	}
	gids, err := p.all.Addrs()
	if err != nil {
		return err
	}
	both := p.all.both()
	for _, gid := range gids {
		addr := gid.Addr()
		if both && (addr.IsLoopback() || addr.IsLinkLocalUnicast()) {
			continue
		}
		if failed := p.listenAt(addr); failed != nil {
			err = failed
		}
	}
	if both || len(p.reachableAt) > 0 {
		return nil
	}
	return err
}

// receive delivers a packet to the queue pair. If the device has both paths, it refuses
// packets from addresses of this host.
func (p *wirePath) receive(pkt wire.Packet, from *udp.Header) {
	op := pkt.Opcode()
	if op.Transport() != wire.UD {
		return
	}
	if p.all.both() {
		// A process of this host has to use the local path, where its user is checked.
		own, err := p.localAddrs.Contains(from.From, p.all.shard.DriveTime())
		if own || err != nil {
			p.q.Counts().Inc(counters.RcvdUserErr)
			return
		}
	}
	d := qp.Datagram{
		QKey: pkt.DETH().QKey(), Src: pkt.DETH().SrcQP(),
		Solicited: pkt.BTH().Solicited(), Payload: pkt.Payload(),
	}
	if h := pkt.ImmDt(); h != nil {
		d.HasImm, d.Imm = true, h.Value()
	}
	d.Header.Set(from.From, from.To, len(pkt.Bytes()), from.TrafficClass, from.HopLimit)
	p.q.DeliverDatagram(&d)
}

func (p *wirePath) detach() {
	p.demux.Detach(p.q.Num())
	p.closeRoutes()
	for _, home := range p.reachableAt {
		p.demux.Close(home)
	}
	p.reachableAt = nil
}
