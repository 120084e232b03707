//go:build linux

package soft

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A sim connects the shards of one device by a simulated network, in virtual time. Each
// shard acts as a host.
type sim struct {
	t     testing.TB
	dev   *testDevice
	net   *netsim.Net
	now   int64
	hosts []*simHost
	// function that reports whether a packet is lost, in addition to the losses of net; may
	// be nil
	lose func(p wire.Packet) bool
	// function that returns an additional delay of a packet; may be nil
	late func(p wire.Packet) time.Duration
}

// A simHost is the packetConn of a shard. It has an IPv6 address, because over IPv4 the
// ICRC would also cover the identification of the IP header. The simulation has no IP
// headers. Each host has a /48 prefix of its own, so it is a source of its own.
type simHost struct {
	sim   *sim
	addr  netip.Addr
	shard *shard
	buf   [wire.MaxPacket]byte
	sent  []netsim.Packet // packets pushed since the last Flush
	spare [][]byte
	room  int // number of packets that may be pushed before Flush; 0: no limit
}

// newSimOf connects the shards of a device, which has a completion vector for each of its
// hosts.
func newSimOf(t testing.TB, d *testDevice, seed uint64, cfg netsim.Config) *sim {
	return &sim{t: t, dev: d, net: netsim.New(seed, cfg)}
}

// newEnd makes an end on a new host of the simulated network.
func (s *sim) newEnd() *end {
	vector := len(s.hosts)
	shard, err := s.dev.shard(vector, verbs.ProgressManual)
	require.NoError(s.t, err)
	h := &simHost{sim: s, shard: shard, addr: netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 5: byte(vector), 15: byte(vector + 1)})}
	shard.clock = func() time.Duration { return time.Duration(s.now) }
	shard.demux.conn = h
	s.hosts = append(s.hosts, h)
	return newEnd(s.t, s.dev, vector, verbs.ProgressManual)
}

// join connects two ends. Functions in the parameter change may modify the attributes of
// both queue pairs.
func (s *sim) join(a, b *end, change ...func(*verbs.QPAttr)) {
	s.connect(a, b, change...)
	s.connect(b, a, change...)
}

func (s *sim) connect(e, peer *end, change ...func(*verbs.QPAttr)) {
	e.connect(peer, func(attr *verbs.QPAttr) {
		attr.AH.DestGID = verbs.GIDFromAddr(s.host(peer).addr)
		for _, f := range change {
			f(attr)
		}
	})
}

func (s *sim) host(e *end) *simHost {
	for _, h := range s.hosts {
		if h.shard == e.qp.shard {
			return h
		}
	}
	panic("an end without a host")
}

// step advances the time to the next event, and processes what is due. It returns false
// if there is no event.
func (s *sim) step() bool {
	next, ok := s.net.Next()
	for _, h := range s.hosts {
		if when, any := h.shard.timers.Next(); any && (!ok || int64(when) < next) {
			next, ok = int64(when), true
		}
		if !h.shard.demux.idle() {
			next, ok = s.now, true
		}
	}
	if !ok {
		return false
	}
	s.now = max(s.now, next)
	for p, ok := s.net.Receive(s.now); ok; p, ok = s.net.Receive(s.now) {
		s.deliver(p)
	}
	for _, h := range s.hosts {
		h.shard.demux.polls += 2
		h.shard.fireTimers()
		h.shard.demux.sendDue()
	}
	return true
}

func (s *sim) deliver(p netsim.Packet) {
	pkt, err := wire.Decode(p.Data)
	if err != nil || s.lose != nil && s.lose(pkt) {
		return
	}
	var flow wire.Flow
	flow.Set(simPort(p.From), simPort(p.To))
	if _, ok := flow.Verify(pkt); !ok {
		return
	}
	for _, h := range s.hosts {
		if h.addr == p.To {
			h.shard.demux.receive(pkt, &udp.Header{From: p.From, To: p.To, HopLimit: 64})
		}
	}
}

// settle calls step() until there is no event.
func (s *sim) settle() {
	for range simLimit {
		if !s.step() {
			return
		}
	}
	require.FailNow(s.t, "the simulation does not end")
}

// simLimit is the number of steps after which a simulation counts as endless. Arbitrary.
const simLimit = 1_000_000

func simPort(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, wire.UDPPort) }

func (h *simHost) Open(*udp.Route) error { return nil }
func (h *simHost) Close(*udp.Route)      {}
func (h *simHost) OnTimeout(*udp.Route)  {}

func (h *simHost) Buffer(_ *udp.Route, size int) []byte {
	if h.room > 0 && len(h.sent) >= h.room {
		return nil
	}
	return h.buf[:size]
}

func (h *simHost) Push(to *udp.Route, p wire.Packet) {
	var b []byte
	if last := len(h.spare) - 1; last >= 0 {
		b, h.spare = h.spare[last][:0], h.spare[:last]
	}
	h.sent = append(h.sent, netsim.Packet{From: h.addr, To: to.Remote, Data: append(b, p.Bytes()...)})
}

func (h *simHost) Flush() {
	for _, p := range h.sent {
		var flow wire.Flow
		flow.Set(simPort(p.From), simPort(p.To))
		pkt, err := wire.Decode(p.Data)
		require.NoError(h.sim.t, err)
		flow.Seal(pkt, 0)
		delay := h.sim.net.Config.Delay
		if h.sim.late != nil {
			h.sim.net.Config.Delay += h.sim.late(pkt)
		}
		h.sim.net.Send(h.sim.now, p)
		h.sim.net.Config.Delay = delay
		h.spare = append(h.spare, p.Data)
	}
	h.sent = h.sent[:0]
}

// checkAllNext makes the next call of drive check sockets, timers and epoll.
func checkAllNext(s *shard) { s.polls.drives = math.MaxUint32 }
