//go:build linux

// Package simnet sends and receives the packets of a device through the network of a
// simulated host. It takes the place of package udp.
package simnet

import (
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/madcm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

const (
	// pollLimit is how many packets one Poll receives at most.
	pollLimit = 64
	// roomLimit is how many packets may be pushed between two calls of Flush.
	roomLimit = 64
)

// Ports has the ports of a device, one for each of its addresses. It belongs to the
// goroutine of the simulation, as all types of this package do.
type Ports struct {
	host  simhost.Host
	port  uint16 // UDP port of the device and of all peers
	slots uint32 // number of shards; see qp.ShardsOf
	// counters of the messages of connection management
	counts   *counters.Set
	open     map[netip.Addr]*port
	overruns uint64 // number of datagrams that found a full queue
}

// NewPorts returns the ports of a device, of which none is open.
func NewPorts(h simhost.Host, number uint16, slots uint32, counts *counters.Set) *Ports {
	return &Ports{host: h, port: number, slots: slots, counts: counts, open: make(map[netip.Addr]*port)}
}

// Addrs returns the addresses with open ports, in ascending order.
func (ps *Ports) Addrs() (addrs []netip.Addr) {
	for a := range ps.open {
		addrs = append(addrs, a)
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return addrs
}

// Overruns returns how many datagrams found a full queue.
func (ps *Ports) Overruns() uint64 { return ps.overruns }

// A port is the UDP port of the device at one address.
type port struct {
	ports  *Ports
	at     netip.AddrPort
	users  int // number of open sockets and routes
	unbind func()
	gsi    *Socket          // nil if there is none
	shards map[uint32]*Conn // by number of the shard
}

// acquire returns the port of an address, and adds one user.
func (ps *Ports) acquire(local netip.Addr) (*port, error) {
	p := ps.open[local]
	if p == nil {
		p = &port{ports: ps, at: netip.AddrPortFrom(local, ps.port), shards: make(map[uint32]*Conn)}
		var err error
		if p.unbind, err = ps.host.Bind(p.at, p.receive); err != nil {
			return nil, err
		}
		ps.open[local] = p
	}
	p.users++
	return p, nil
}

// release removes one user.
func (p *port) release() {
	if p.users--; p.users == 0 {
		p.unbind()
		delete(p.ports.open, p.at.Addr())
	}
}

// receive queues a datagram that has arrived, as the BPF program of package udp does: for
// the shard of its destination queue pair, or for connection management.
func (p *port) receive(from netip.AddrPort, datagram []byte) {
	pkt, err := wire.Decode(datagram)
	if err != nil || pkt.BTH().DestQP() == wire.GSIQPN {
		if p.gsi != nil {
			p.gsi.put(p, from, datagram)
		}
		return
	}
	if c := p.shards[pkt.BTH().DestQP()%p.ports.slots]; c != nil {
		c.put(p, from, datagram)
	}
}

// A queue has the datagrams that have arrived and were not read yet.
type queue struct {
	event    *fdevent.Event // readable while datagrams wait
	waiting  []arrived
	counts   *counters.Set
	flow     wire.Flow // flow of the last packet
	from, to netip.AddrPort
}

type arrived struct {
	from, to netip.AddrPort
	at       time.Time
	data     []byte
}

func newQueue(counts *counters.Set) (q queue, err error) {
	q.event, err = fdevent.NewEvent()
	q.counts = counts
	return q, err
}

func (q *queue) put(p *port, from netip.AddrPort, datagram []byte) {
	if len(q.waiting) >= p.ports.host.ReceiveLimit() {
		p.ports.overruns++
		return
	}
	q.waiting = append(q.waiting, arrived{from, p.at, time.Now(), slices.Clone(datagram)})
	q.event.Signal()
}

// take passes up to limit packets to a sink, and returns the number of datagrams. The
// parameter gsi is the sink if it is one of connection management, and else nil.
func (q *queue) take(limit int, to udp.Sink, gsi udp.GSISink) (n int) {
	for ; n < limit && len(q.waiting) > 0; n++ {
		a := q.waiting[0]
		if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
			q.event.Drain() // now, because the sink may close the queue
		}
		q.counts.Add(q.deliver(&a, to, gsi), 1)
	}
	return n
}

// deliver checks a packet as package udp does, and passes it to the sink. It returns the
// counter of the result.
func (q *queue) deliver(a *arrived, to udp.Sink, gsi udp.GSISink) counters.ID {
	p, err := wire.Decode(a.data)
	if err != nil {
		return counters.RcvdMalformedErr
	}
	if gsi != nil && !gsi.Wants(p, a.from.Addr(), a.to.Addr()) {
		return counters.CMRequestUnread
	}
	if q.from != a.from || q.to != a.to {
		q.from, q.to = a.from, a.to
		q.flow.Set(a.from, a.to)
	}
	if _, ok := q.flow.Verify(p); !ok {
		return counters.RxICRCEncapsulated
	}
	if !to.Receive(p, &udp.Header{From: a.from.Addr(), To: a.to.Addr(), HopLimit: udp.DefaultHopLimit, Time: a.at.UnixNano()}) {
		return counters.RcvdNoQPErr
	}
	return counters.RcvdPkts
}

// A Conn has the packets of a shard. It implements qp.Sockets.
type Conn struct {
	queue
	ports   *Ports
	slot    uint32
	sink    udp.Sink
	watcher udp.Watcher
	routes  map[netip.Addr]*routes // open routes by local address
	inUse   int                    // number of open routes
	sent    []outgoing             // packets pushed since the last Flush
	buf     [wire.MaxPacket]byte
}

type routes struct {
	port  *port
	users int
}

type outgoing struct {
	from, to netip.AddrPort
	data     []byte
}

var _ qp.Sockets = (*Conn)(nil)

// NewConn returns the Conn of a shard, without open routes.
func (ps *Ports) NewConn(s *qp.Shard) *Conn {
	return &Conn{ports: ps, slot: s.Slot, sink: s, watcher: s, queue: queue{counts: s.Counts}, routes: make(map[netip.Addr]*routes)}
}

// Open implements packets.Conn.
func (c *Conn) Open(to *udp.Route) (err error) {
	r := c.routes[to.Local]
	if r == nil {
		if r, err = c.listen(to.Local); err != nil {
			return err
		}
	}
	r.users++
	if c.inUse++; c.inUse == 1 {
		c.watcher.InUse(true)
	}
	return nil
}

// listen makes the packets of the shard that arrive at an address come to the Conn.
func (c *Conn) listen(local netip.Addr) (*routes, error) {
	if c.event == nil {
		event, err := fdevent.NewEvent()
		if err != nil {
			return nil, err
		}
		if err = c.watcher.Watch(event.FD(), unix.EPOLLIN, c); err != nil {
			_ = event.Close()
			return nil, err
		}
		c.event = event
	}
	p, err := c.ports.acquire(local)
	if err != nil {
		return nil, err
	}
	p.shards[c.slot] = c
	c.routes[local] = &routes{port: p}
	return c.routes[local], nil
}

// Close implements packets.Conn.
func (c *Conn) Close(to *udp.Route) {
	r := c.routes[to.Local]
	r.users--
	if c.inUse--; c.inUse == 0 {
		c.watcher.InUse(false)
	}
	if r.users == 0 {
		c.watcher.Unused()
	}
}

// CloseUnused implements qp.Sockets.
func (c *Conn) CloseUnused() {
	for local, r := range c.routes {
		if r.users == 0 {
			delete(r.port.shards, c.slot)
			r.port.release()
			delete(c.routes, local)
		}
	}
	if len(c.routes) == 0 && c.event != nil {
		c.watcher.Unwatch(c.event.FD())
		_ = c.event.Close()
		c.event, c.waiting = nil, nil
	}
}

// OnTimeout implements packets.Conn. There is nothing to discard.
func (c *Conn) OnTimeout(*udp.Route) {}

// Buffer implements packets.Conn.
func (c *Conn) Buffer(_ *udp.Route, size int) []byte {
	if len(c.sent) >= roomLimit {
		return nil
	}
	return c.buf[:size]
}

// Push implements packets.Conn.
func (c *Conn) Push(to *udp.Route, p wire.Packet) {
	out := outgoing{from: netip.AddrPortFrom(to.Local, c.ports.port), to: netip.AddrPortFrom(to.Remote, c.ports.port)}
	out.seal(p)
	c.sent = append(c.sent, out)
}

// seal computes the ICRC of a packet, and copies the packet.
func (o *outgoing) seal(p wire.Packet) {
	var flow wire.Flow
	flow.Set(o.from, o.to)
	flow.Seal(p, 0)
	o.data = slices.Clone(p.Bytes())
}

// Flush implements packets.Conn.
func (c *Conn) Flush() {
	for _, o := range c.sent {
		c.ports.host.Send(o.from, o.to, o.data)
	}
	c.counts.Add(counters.SentPkts, uint64(len(c.sent)))
	c.sent = c.sent[:0]
}

// Poll implements qp.Sockets.
func (c *Conn) Poll(bool) {
	c.take(pollLimit, c.sink, nil)
	c.Flush()
}

// Drain implements qp.Sockets.
func (c *Conn) Drain(bool) (done bool) {
	c.take(pollLimit, c.sink, nil)
	return len(c.waiting) == 0
}

// Arm implements qp.Sockets. The event is always watched.
func (c *Conn) Arm() {}

// OverflowSockets implements qp.Sockets.
func (c *Conn) OverflowSockets() int { return 0 }

// PollOverflow implements qp.Sockets. No socket is polled by epoll only.
func (c *Conn) PollOverflow() {}

// OnReady implements fdevent.Handler.
func (c *Conn) OnReady(int, uint32) { c.Poll(false) }

// Open implements madcm.Network.
func (ps *Ports) Open(local netip.Addr) (madcm.Socket, error) {
	q, err := newQueue(ps.counts)
	if err != nil {
		return nil, err
	}
	p, err := ps.acquire(local)
	if err != nil {
		_ = q.event.Close()
		return nil, err
	}
	p.gsi = &Socket{queue: q, port: p}
	return p.gsi, nil
}

// OpenRequests implements madcm.Network. There are no ICMP errors, so requests are sent
// from the Socket.
func (ps *Ports) OpenRequests(netip.Addr) (*madcm.RequestSocket, error) { return nil, nil }

// A Socket has the messages of connection management at one address.
type Socket struct {
	queue
	port *port
	psn  psn.Value
	buf  [madcm.PacketSize]byte
}

// FD implements madcm.Socket.
func (s *Socket) FD() int { return s.event.FD() }

// Receive implements madcm.Socket.
func (s *Socket) Receive(to udp.GSISink) int { return s.take(madcm.ReadBatch, to, to) }

// Send implements madcm.Socket.
func (s *Socket) Send(m *wire.MAD, to netip.Addr) {
	clear(s.buf[:])
	o := outgoing{from: s.port.at, to: netip.AddrPortFrom(to, s.port.ports.port)}
	o.seal(madcm.Packet(s.buf[:], m, s.psn))
	s.psn = s.psn.Add(1)
	s.port.ports.host.Send(o.from, o.to, o.data)
	s.counts.Inc(counters.SentPkts)
}

// RouteMTU implements madcm.Socket.
func (s *Socket) RouteMTU(netip.Addr) int { return s.port.ports.host.MTU() }

// Close implements madcm.Socket.
func (s *Socket) Close() {
	_ = s.event.Close()
	s.waiting = nil // for take, if the sink has called Close
	s.port.gsi = nil
	s.port.release()
}
