//go:build linux

package udp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// A receiver reads batches only if several packets wait.
func TestReceiveBatchSize(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	take := func(packets int, large bool) {
		t.Helper()
		require.Equal(t, packets, r.recv.receive(&counter{}))
		require.Equal(t, large, r.recv.largeBatches)
	}
	for range 7 {
		r.queue(10)
	}
	r.flush()
	take(1, false)
	take(1, false)
	take(1, true)
	take(4, true)
	take(0, true)
	r.queue(10)
	r.flush()
	take(1, false)
	take(0, false)
}

// A datagram that is too long is dropped and counted.
func TestReceiveTooLong(t *testing.T) {
	for _, large := range []bool{false, true} {
		r := newRig(t, "127.9.0.1", "127.9.0.2")
		r.recv.largeBatches = large
		to := unix.SockaddrInet4{Port: int(r.recv.local.Port()), Addr: r.recv.local.Addr().As4()}
		require.NoError(t, unix.Sendto(r.send.shared.fd, make([]byte, packetBufSize+1), 0, &to))
		r.loop.drain(t)
		require.Equal(t, 1, r.recv.receive(&counter{}))
		require.EqualValues(t, 1, r.count(counters.RcvdMalformedErr))
		require.Zero(t, r.count(counters.RcvdPkts))
		r.queue(10)
		r.flush()
		require.Equal(t, []int{10}, r.received().sizes, "the next packet is received")
	}
}

// A packet is dropped and counted if its identification is too far from those of earlier
// packets.
func TestReceiveChecksIPID(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	to := unix.SockaddrInet4{Port: int(r.recv.local.Port()), Addr: r.recv.local.Addr().As4()}
	p := wire.Build(make([]byte, packetBufSize), wire.SendOnly, 1024)
	take := func(id uint16) int {
		r.to.flow.Seal(p, id)
		require.NoError(t, unix.Sendto(r.send.shared.fd, p.Bytes(), 0, &to))
		r.loop.drain(t)
		return len(r.received().sizes)
	}
	now := time.Hour
	r.recv.clock = func() time.Duration { now += time.Microsecond; return now }
	for id := range uint16(500) {
		require.Equal(t, 1, take(1000+id))
	}
	require.Zero(t, r.count(counters.RcvdIdentErr))
	require.Equal(t, 0, take(20_000))
	require.EqualValues(t, 1, r.count(counters.RcvdIdentErr))
	require.Equal(t, 1, take(1500), "the unexpected packet was an error")
	require.Equal(t, 0, take(40_000))
	require.Equal(t, 1, take(40_001), "two unexpected packets in order: the sender has jumped")

	now += 10 * time.Second
	require.Equal(t, 1, take(50_000), "in ten seconds the identification may have any value")
	require.EqualValues(t, 2, r.count(counters.RcvdIdentErr))
	require.Zero(t, r.count(counters.RxICRCEncapsulated))
}

// The field since of a receiver is a lower limit of the arrival times of the last
// packets.
func TestArrivalTimes(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	now := time.Duration(0)
	r.recv.clock = func() time.Duration { return now }
	take := func(packets int) {
		t.Helper()
		now += 10
		require.Equal(t, packets, r.recv.receive(&counter{}))
	}
	for i := range stampEvery {
		r.queue(10)
		r.flush()
		take(1)
		require.Zero(t, r.recv.since, "call %d", i)
		take(0)
	}
	stamp := r.recv.times.stamp
	require.Equal(t, now-10, stamp)
	for range 3 {
		r.queue(10)
	}
	r.flush()
	take(1)
	require.Equal(t, stamp, r.recv.since, "the packet arrived after that time")
	r.recv.times.stamp = now
	take(1)
	require.Equal(t, stamp, r.recv.since, "the packet already waited when the first one was read")
	take(1)
	take(0)
	r.queue(10)
	r.flush()
	take(1)
	require.Equal(t, now-40, r.recv.since)
}

// A receiver remembers at most maxSources sources, but receives from others too.
func TestSourcesAreBounded(t *testing.T) {
	var s sources
	local := netip.MustParseAddrPort("10.0.0.1:4791")
	first := s.keep(s.find(netip.AddrPortFrom(local.Addr(), 1), local))
	require.Same(t, first, s.find(first.at, local))
	require.Same(t, first, s.keep(first))
	for port := range 3 * maxSources {
		at := netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), uint16(port))
		found := s.find(at, local)
		require.False(t, found.kept, "a source is remembered after a valid packet")
		kept := s.keep(found)
		require.Equal(t, at, kept.at)
		require.Same(t, kept, s.find(at, local))
		require.LessOrEqual(t, len(s.known), maxSources)
	}
	require.Len(t, s.known, maxSources)
}

// BenchmarkPacket sends and receives a packet of 1 KiB on this host.
func BenchmarkPacket(b *testing.B) {
	r := newRig(b, "127.9.0.1", "127.9.0.2")
	sink := &counter{}
	b.ReportAllocs()
	for b.Loop() {
		p := wire.Build(r.send.buffer(), wire.SendOnly, 1024)
		r.send.put(p, r.to, 0)
		r.send.flush()
		for r.recv.receive(sink) == 0 {
		}
	}
}

// A picky is a GSISink that wants only packets with an even PSN.
type picky struct{ basket }

func (*picky) Wants(p wire.Packet, _, _ netip.Addr) bool { return p.BTH().PSN()%2 == 0 }

// A packet that the sink does not want is counted, and costs nothing else: neither is its
// ICRC checked, nor its sender remembered.
func TestReceiveUnwanted(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	sink := &picky{}
	r.recv.gsi = sink
	r.num = 1
	r.queue(10)
	r.flush()
	require.Equal(t, 1, r.recv.receive(sink))
	require.EqualValues(t, 1, r.count(counters.CMRequestUnread))
	require.Empty(t, r.recv.sources.known)
	for range 4 {
		r.queue(10)
	}
	r.flush()
	for r.recv.receive(sink) > 0 {
	}
	require.Equal(t, []psn.Value{2, 4}, sink.numIDs)
	require.EqualValues(t, 3, r.count(counters.CMRequestUnread))
	require.EqualValues(t, 2, r.count(counters.RcvdPkts))
}
