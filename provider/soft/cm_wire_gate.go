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
	x       *madExchange
	ch      *channel // with the exchange's lock
	id      *id
	spot    spot
	service wire.ServiceID
	places  wirePlaces
	news    *addressNews // of a wildcard
	newsErr error        // why addresses that come later are not noticed, or nil
	open    bool
	closed  bool // with the exchange's lock
}

// openWireGate opens the gate of a listener on the address that it is bound to,
// or on those of all interfaces. Where an address can not be served, the gate
// knows why.
func openWireGate(i *id) *wireGate {
	ch := i.ch.Load()
	g := &wireGate{
		x: ch.dev.mads, ch: ch, id: i, spot: i.port.spot, open: true,
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
	if err := g.news.move(g.ch, to); err != nil {
		return err
	}
	ports := g.places.ports()
	for i, p := range ports {
		if err := to.watchPort(p); err != nil {
			for _, done := range ports[:i] {
				to.unwatchPort(done)
			}
			_ = g.news.move(to, g.ch) // it has had a place there
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

func (g *wireGate) close() {
	g.x.mu.Lock()
	g.closed = true
	rest := slices.DeleteFunc(g.x.gates[g.service], func(o *wireGate) bool { return o == g })
	if g.x.gates[g.service] = rest; len(rest) == 0 {
		delete(g.x.gates, g.service)
	}
	g.x.mu.Unlock()
	g.news.close(g.ch)
	g.places.close(g.ch)
}

// leave: see wireCarrier.leave.
func (g *wireGate) leave(job func()) {
	ch := g.ch
	ch.inbox.leave(func() {
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
	guid   uint64         // of a connection
	qpn    uint32         // of a connection
	answer wire.ServiceID // of a lookup
}

func (n *newcomer) lookup() bool { return n.m.kind() == kindSIDRREQ }

// enter makes an ID of a request, unless it is there already.
func (g *wireGate) enter(n *newcomer) {
	if !g.open && g.id.ps == cm.TCP || g.known(n) {
		return
	}
	port, err := g.x.open(n.port.local, g.ch)
	if err != nil {
		return
	}
	c := &wireCarrier{x: g.x, ch: g.ch, port: port, remote: n.from, service: n.answer}
	c.register()
	met := true
	if n.lookup() {
		c.expectAnswer(n)
	} else {
		met = c.meet(n.guid, n.id, n.qpn)
	}
	if met {
		c.id = g.id.incoming(n.m, c)
	}
	if c.id == nil {
		c.drop()
	}
}

// known reports whether a request has been met. It may have come twice before it
// got here.
func (g *wireGate) known(n *newcomer) bool {
	g.x.mu.Lock()
	defer g.x.mu.Unlock()
	if n.lookup() {
		return g.x.lookups[lookupKey{n.from, n.id}] != nil
	}
	return g.x.byPeer[peerKey{n.from, n.guid, n.id}] != nil || g.x.byQP[peerKey{n.from, n.guid, n.qpn}] != nil
}

var _ gate = (*wireGate)(nil)
