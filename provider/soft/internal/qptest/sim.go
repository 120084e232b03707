//go:build linux

package qptest

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Sim connects the shards of one device by a simulated network, in virtual time. Each
// shard acts as a host.
type Sim struct {
	T     testing.TB
	Dev   *Device
	Net   *netsim.Net
	Now   int64
	Hosts []*Host
	// function that reports whether a packet is lost, in addition to the losses of net; may
	// be nil
	Lose func(p wire.Packet) bool
	// function that returns an additional delay of a packet; may be nil
	Late func(p wire.Packet) time.Duration
}

// A Host is the packets.Conn of a shard. It has an IPv6 address, because over IPv4 the
// ICRC would also cover the identification of the IP header. The simulation has no IP
// headers. Each host has a /48 prefix of its own, so it is a source of its own.
type Host struct {
	sim   *Sim
	Addr  netip.Addr
	Shard *qp.Shard
	buf   [wire.MaxPacket]byte
	sent  []netsim.Packet // packets pushed since the last Flush
	spare [][]byte
	room  int // number of packets that may be pushed before Flush; 0: no limit
}

// NewSim connects the shards of a device, which has a completion vector for each of its
// hosts.
func NewSim(t testing.TB, d *Device, seed uint64, cfg netsim.Config) *Sim {
	return &Sim{T: t, Dev: d, Net: netsim.New(seed, cfg)}
}

// NewEnd makes an end on a new host of the simulated network.
func (s *Sim) NewEnd() *End {
	vector := len(s.Hosts)
	shard, err := s.Dev.Shard(vector, verbs.ProgressManual)
	require.NoError(s.T, err)
	h := &Host{sim: s, Shard: shard, Addr: netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 5: byte(vector), 15: byte(vector + 1)})}
	shard.Clock = func() time.Duration { return time.Duration(s.Now) }
	shard.Demux.Conn = h
	s.Hosts = append(s.Hosts, h)
	return NewEnd(s.T, s.Dev, vector, verbs.ProgressManual)
}

// Join connects two ends. Functions in the parameter change may modify the attributes of
// both queue pairs.
func (s *Sim) Join(a, b *End, change ...func(*verbs.QPAttr)) {
	s.connect(a, b, change...)
	s.connect(b, a, change...)
}

func (s *Sim) connect(e, peer *End, change ...func(*verbs.QPAttr)) {
	e.Connect(peer, func(attr *verbs.QPAttr) {
		attr.AH.DestGID = verbs.GIDFromAddr(s.Host(peer).Addr)
		for _, f := range change {
			f(attr)
		}
	})
}

// Host returns the host of an end.
func (s *Sim) Host(e *End) *Host {
	for _, h := range s.Hosts {
		if h.Shard == e.QP.Shard {
			return h
		}
	}
	panic("an end without a host")
}

// Step advances the time to the next event, and processes what is due. It returns false
// if there is no event.
func (s *Sim) Step() bool {
	next, ok := s.Net.Next()
	for _, h := range s.Hosts {
		if when, any := h.Shard.Timers.Next(); any && (!ok || int64(when) < next) {
			next, ok = int64(when), true
		}
		if !h.Shard.Demux.Idle() {
			next, ok = s.Now, true
		}
	}
	if !ok {
		return false
	}
	s.Now = max(s.Now, next)
	for p, ok := s.Net.Receive(s.Now); ok; p, ok = s.Net.Receive(s.Now) {
		s.deliver(p)
	}
	for _, h := range s.Hosts {
		h.Shard.Demux.Polls += 2
		h.Shard.FireTimers()
		h.Shard.Demux.SendDue()
	}
	return true
}

func (s *Sim) deliver(p netsim.Packet) {
	pkt, err := wire.Decode(p.Data)
	if err != nil || s.Lose != nil && s.Lose(pkt) {
		return
	}
	var flow wire.Flow
	flow.Set(simPort(p.From), simPort(p.To))
	if _, ok := flow.Verify(pkt); !ok {
		return
	}
	for _, h := range s.Hosts {
		if h.Addr == p.To {
			h.Shard.Demux.Receive(pkt, &udp.Header{From: p.From, To: p.To, HopLimit: 64})
		}
	}
}

// Settle calls step() until there is no event.
func (s *Sim) Settle() {
	for range SimLimit {
		if !s.Step() {
			return
		}
	}
	require.FailNow(s.T, "the simulation does not end")
}

// SimLimit is the number of steps after which a simulation counts as endless. Arbitrary.
const SimLimit = 1_000_000

func simPort(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, wire.UDPPort) }

// Open implements packets.Conn.
func (h *Host) Open(*udp.Route) error { return nil }

// Close implements packets.Conn.
func (h *Host) Close(*udp.Route) {}

// OnTimeout implements packets.Conn.
func (h *Host) OnTimeout(*udp.Route) {}

// Buffer implements packets.Conn.
func (h *Host) Buffer(_ *udp.Route, size int) []byte {
	if h.room > 0 && len(h.sent) >= h.room {
		return nil
	}
	return h.buf[:size]
}

// Push implements packets.Conn.
func (h *Host) Push(to *udp.Route, p wire.Packet) {
	var b []byte
	if last := len(h.spare) - 1; last >= 0 {
		b, h.spare = h.spare[last][:0], h.spare[:last]
	}
	h.sent = append(h.sent, netsim.Packet{From: h.Addr, To: to.Remote, Data: append(b, p.Bytes()...)})
}

// Flush implements packets.Conn.
func (h *Host) Flush() {
	for _, p := range h.sent {
		var flow wire.Flow
		flow.Set(simPort(p.From), simPort(p.To))
		pkt, err := wire.Decode(p.Data)
		require.NoError(h.sim.T, err)
		flow.Seal(pkt, 0)
		delay := h.sim.Net.Config.Delay
		if h.sim.Late != nil {
			h.sim.Net.Config.Delay += h.sim.Late(pkt)
		}
		h.sim.Net.Send(h.sim.Now, p)
		h.sim.Net.Config.Delay = delay
		h.spare = append(h.spare, p.Data)
	}
	h.sent = h.sent[:0]
}

// CheckAllNext makes the next call of drive check sockets, timers and epoll.
func CheckAllNext(s *qp.Shard) { s.Polls.Drives = math.MaxUint32 }
