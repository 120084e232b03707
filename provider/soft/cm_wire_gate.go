//go:build linux

package soft

import (
	"net/netip"
	"slices"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// A wireGate lets requests in that come as datagrams. Those for which there is
// no room are dropped: the peer repeats them.
type wireGate struct {
	x        *madExchange
	ch       *channel // channel of the listener; guarded by the exchange's lock
	id       *id
	spot     spot
	service  wire.ServiceID
	places   wirePlaces
	watch    *addressWatch // watch of the addresses of a wildcard; else nil
	watchErr error         // error because of which later addresses are not noticed, or nil
	open     bool
	closed   bool // the gate was closed; guarded by the exchange's lock
	// waiting has the requests that the channel has not looked at yet. It is guarded by
	// the exchange's lock.
	waiting map[*newcomer]struct{}
	half    halfOpenTable // half-open connections; guarded by the exchange's lock
}

// openWireGate opens the gate of a listener on the address that it is bound to, or on
// the addresses of all interfaces. An address that can not be served has its error in
// places.
func openWireGate(i *id) *wireGate {
	ch := i.ch.Load()
	g := &wireGate{
		x: ch.dev.mads, ch: ch, id: i, spot: i.port.spot, open: true,
		waiting: make(map[*newcomer]struct{}), half: newHalfOpenTable(&ch.dev.cfg),
		service: wire.NewServiceID(uint16(i.ps), i.port.spot.port),
	}
	if g.spot.wildcard() {
		g.followAddresses()
	} else {
		g.places.add(g, g.spot.addr)
	}
	g.x.mu.Lock()
	defer g.x.mu.Unlock()
	g.x.gates[g.service] = append(g.x.gates[g.service], g)
	return g
}

// admit: see gate.
func (g *wireGate) admit(yes bool) { g.open = yes }

func (g *wireGate) move(to *channel) error {
	if err := g.watch.move(g.ch, to); err != nil {
		return err
	}
	ports := g.places.ports()
	for i, p := range ports {
		if err := to.watchPort(p); err != nil {
			for _, done := range ports[:i] {
				to.unwatchPort(done)
			}
			_ = g.watch.move(to, g.ch) // moves the watch back; g.ch has watched it before
			return err
		}
	}
	g.x.mu.Lock()
	from := g.ch
	g.ch = to
	g.x.mu.Unlock()
	for _, p := range ports {
		from.unwatchPort(p)
	}
	return nil
}

// close implements gate. It refuses all requests that have arrived and that the
// application has not fetched (rdma_destroy_id(3)).
func (g *wireGate) close() {
	for _, p := range g.places.ports() {
		p.drain()
	}
	g.x.mu.Lock()
	g.closed = true
	rest := slices.DeleteFunc(g.x.gates[g.service], func(o *wireGate) bool { return o == g })
	if g.x.gates[g.service] = rest; len(rest) == 0 {
		delete(g.x.gates, g.service)
	}
	for n := range g.waiting {
		g.x.turnAway(n)
	}
	g.waiting = nil
	g.x.mu.Unlock()
	g.watch.close(g.ch)
	g.places.close(g.ch)
}

// turnAway refuses a waiting request. It does nothing if a copy of the request
// already has an ID, which outlives the listener, or if the address of the request is
// not served any more. The caller holds the lock.
func (x *madExchange) turnAway(n *newcomer) {
	if x.known(n) || x.ports[n.port.local] != n.port {
		return
	}
	var out wire.MAD
	if n.lookup() {
		encodeSIDRREP(&out, &lookupReplyMsg{status: cm.SIDRReject}, n.answer, n.id)
	} else {
		r := wire.REJ{RemoteID: n.id, Rejected: wire.AnsweredREQ, Reason: uint16(cm.RejectConsumer)}
		r.Encode(&out, n.tid)
	}
	x.answer(n.port, n.from, &out)
}

// leave: see wireCarrier.leave.
func (g *wireGate) leave(job func()) bool {
	ch := g.ch
	return ch.inbox.leave(jobRequest, func() {
		if g.isOn(ch, job) {
			job()
		}
	})
}

func (g *wireGate) isOn(ch *channel, job func()) bool {
	g.x.mu.Lock()
	defer g.x.mu.Unlock()
	if g.ch != ch && !g.closed {
		g.leave(job)
	}
	return g.ch == ch && !g.closed
}

// A newcomer is a request, and whose it is.
type newcomer struct {
	port   *madPort
	from   netip.Addr
	m      message
	id     uint32         // of the connection, or of the lookup
	tid    uint64         // transaction ID of the message
	guid   uint64         // of a connection
	qpn    uint32         // of a connection
	answer wire.ServiceID // of a lookup
}

func (n *newcomer) lookup() bool { return n.m.kind() == kindSIDRREQ }

// bring passes a request to the channel of the gate, or drops it when there is no
// room for it now; the peer repeats it. The caller holds the exchange's lock.
func (g *wireGate) bring(n *newcomer) {
	_, room := g.half.room(sourceOf(n.from), g.x.clock())
	if !room || !g.leave(func() { g.enter(n) }) {
		g.x.counts.inc(cmRequestDropped)
		return
	}
	g.waiting[n] = struct{}{}
}

// enter makes an ID of a request, unless it is there already.
func (g *wireGate) enter(n *newcomer) {
	g.x.mu.Lock()
	delete(g.waiting, n)
	known := g.x.known(n)
	g.x.mu.Unlock()
	if known {
		return
	}
	if !g.open && g.id.ps == cm.TCP {
		g.x.counts.inc(cmRequestDropped)
		return
	}
	port, err := g.x.open(n.port.local, g.ch)
	if err != nil {
		return
	}
	c := &wireCarrier{x: g.x, ch: g.ch, port: port, remote: n.from, service: n.answer, gate: g, proof: proof{received: 1}}
	c.register()
	met := true
	if n.lookup() {
		c.expectAnswer(n)
	} else {
		met = c.meet(n.guid, n.id, n.qpn)
	}
	if met && c.takePlace() {
		c.id = g.id.incoming(n.m, c)
	}
	if c.id == nil {
		c.drop()
	}
}

// known reports whether a request already has a carrier, because a copy of it was
// handled before. The caller holds the lock.
func (x *madExchange) known(n *newcomer) bool {
	if n.lookup() {
		return x.lookups[lookupKey{n.from, n.id}] != nil
	}
	return x.byPeer[peerKey{n.from, n.guid, n.id}] != nil || x.byQP[peerKey{n.from, n.guid, n.qpn}] != nil
}

var _ gate = (*wireGate)(nil)
