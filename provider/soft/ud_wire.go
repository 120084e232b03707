//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// maxUDRoutes limits the open routes of a UD queue pair. When the limit is reached, all
// routes are closed. Arbitrary.
const maxUDRoutes = 1024

// udWire is the wire path of a UD queue pair. It belongs to the shard.
type udWire struct {
	localAddrs hostport.LocalAddrCache // addresses of this host, whose datagrams are refused
	all        *udSockets
	q          *qp
	demux      *qpDemux
	routes     map[udp.Route]*udp.Route
	// routes for receiving, one for each local address
	reachableAt []*udp.Route
	hasAddress  bool // true after receiveAt; listenAtAll then does nothing
}

func newUDWire(all *udSockets, q *qp) *udWire {
	return &udWire{all: all, q: q, demux: &q.shard.demux, routes: make(map[udp.Route]*udp.Route)}
}

// sendOne sends the request w as a datagram with the sequence seq. If the packetConn has
// no room, the result room is false.
func (u *udWire) sendOne(w *wqe, along *ah, seq uint64) (status verbs.Status, room bool) {
	to := u.route(&along.to)
	if to == nil {
		return verbs.StatusLocQPOpErr, true
	}
	op := wire.UDSendOnly
	if w.op == verbs.OpSendImm {
		op = wire.UDSendOnlyImm
	}
	b := u.demux.conn.Buffer(to, op.Size(int(w.total)))
	if b == nil {
		return verbs.StatusSuccess, false
	}
	pkt := wire.Build(b, op, int(w.total))
	if w.total > 0 && !u.q.gather(pkt.Payload(), w, 0) {
		return verbs.StatusLocProtErr, true
	}
	bth := pkt.BTH()
	bth.SetDestQP(w.ud.qpn)
	bth.SetPSN(psnOf(psn.Value(u.q.attributes().SQPSN), seq))
	bth.SetSolicited(w.flags&verbs.SendSolicited != 0)
	pkt.DETH().Set(w.ud.qkey, u.q.Num())
	if h := pkt.ImmDt(); h != nil {
		h.Set(w.imm)
	}
	u.demux.push(to, pkt)
	return verbs.StatusSuccess, true
}

// route returns the open route of an address handle, or nil if it can not be opened.
func (u *udWire) route(of *udp.Route) *udp.Route {
	if to := u.routes[*of]; to != nil {
		return to
	}
	if len(u.routes) == maxUDRoutes {
		u.closeRoutes()
	}
	to := new(udp.Route)
	*to = *of
	to.WantHeader = true
	if u.demux.conn.Open(to) != nil {
		return nil
	}
	u.routes[*of] = to
	return to
}

func (u *udWire) closeRoutes() {
	for _, to := range u.routes {
		u.demux.conn.Close(to)
	}
	clear(u.routes)
}

// listenAt makes the queue pair receive datagrams at an address of this host.
func (u *udWire) listenAt(local netip.Addr) error {
	home := &udp.Route{Local: local, Remote: local, WantHeader: true}
	if err := u.demux.conn.Open(home); err != nil {
		return err
	}
	u.reachableAt = append(u.reachableAt, home)
	return nil
}

// receiveAt makes the queue pair receive at one address only, or at none if the address
// is zero.
func (u *udWire) receiveAt(at netip.Addr) error {
	u.hasAddress = true
	if !at.IsValid() {
		return nil
	}
	return u.listenAt(at)
}

// listenAtAll makes the queue pair receive at all addresses of this host. It does
// nothing after a call of receiveAt. If the device has both paths, it leaves out loopback and link-local
// addresses, and ignores an error of listenAt.
func (u *udWire) listenAtAll() error {
	if u.hasAddress || len(u.reachableAt) > 0 {
		return nil
	}
	gids, err := u.all.addrs()
	if err != nil {
		return err
	}
	both := u.all.both()
	for _, gid := range gids {
		addr := gid.Addr()
		if both && (addr.IsLoopback() || addr.IsLinkLocalUnicast()) {
			continue
		}
		if failed := u.listenAt(addr); failed != nil {
			err = failed
		}
	}
	if both || len(u.reachableAt) > 0 {
		return nil
	}
	return err
}

// receive implements wireQP. If the device has both paths, it refuses packets from
// addresses of this host.
func (u *udWire) receive(pkt wire.Packet, from *udp.Header) {
	op := pkt.Opcode()
	if op.Transport() != wire.UD {
		return
	}
	if u.all.both() {
		// A process of this host has to use the local path, where its user is checked.
		own, err := u.localAddrs.Contains(from.From, u.q.shard.driveTime())
		if own || err != nil {
			u.q.counts().Inc(counters.RcvdUserErr)
			return
		}
	}
	d := datagram{
		qkey: pkt.DETH().QKey(), src: pkt.DETH().SrcQP(),
		solicited: pkt.BTH().Solicited(), payload: pkt.Payload(),
	}
	if h := pkt.ImmDt(); h != nil {
		d.hasImm, d.imm = true, h.Value()
	}
	d.header.Set(from.From, from.To, len(pkt.Bytes()), from.TrafficClass, from.HopLimit)
	u.q.deliverDatagram(&d)
}

func (u *udWire) detach() {
	u.demux.detach(u.q.Num())
	u.closeRoutes()
	for _, home := range u.reachableAt {
		u.demux.conn.Close(home)
	}
	u.reachableAt = nil
}
