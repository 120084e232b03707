//go:build linux

package soft

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// faults are the faults of the simulated network of TestStreamOverLoss. The jitter lets
// up to 20 later turns of the sender overtake a packet.
var faults = netsim.Config{Drop: 0.05, Duplicate: 0.02, Reorder: 0.05, Corrupt: 0.02, Jitter: 20 * turnTime}

// turnTime is the virtual time of one turn of both sides. Arbitrary.
const turnTime = 50 * time.Microsecond

// A faultyConn is a packets.Conn whose packets pass a simulated network before they are
// sent.
type faultyConn struct {
	packets.Conn
	now    *time.Duration // virtual time of the test
	net    *netsim.Net
	routes map[netip.Addr]*udp.Route // open routes by their number, as an address
	last   netip.Addr                // number of the last route
	// Damaged packets leave through this socket, because packets.Conn computes the ICRC of
	// each packet. The ICRC of all packets in net is for this socket.
	damaged *net.UDPConn
	flow    wire.Flow
}

// newFaultyConn returns a faultyConn between two addresses with the given UDP port.
func newFaultyConn(t *testing.T, inner packets.Conn, now *time.Duration, seed uint64, from, to netip.AddrPort) *faultyConn {
	damaged, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from.Addr(), 0)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, damaged.Close()) })
	c := &faultyConn{
		Conn: inner, now: now, net: netsim.New(seed, faults), routes: make(map[netip.Addr]*udp.Route),
		last: netip.IPv4Unspecified(), damaged: damaged,
	}
	c.flow.Set(damaged.LocalAddr().(*net.UDPAddr).AddrPort(), to)
	return c
}

func (c *faultyConn) Open(to *udp.Route) error {
	c.last = c.last.Next()
	c.routes[c.last] = to
	return c.Conn.Open(to)
}

func (c *faultyConn) Close(to *udp.Route) {
	maps.DeleteFunc(c.routes, func(_ netip.Addr, r *udp.Route) bool { return r == to })
	c.Conn.Close(to)
}

func (c *faultyConn) Push(to *udp.Route, p wire.Packet) {
	c.flow.Seal(p, 0)
	for number, r := range c.routes {
		if r == to {
			c.net.Send(int64(*c.now), netsim.Packet{From: number, Data: p.Bytes()})
		}
	}
}

// deliver sends the packets that have passed the network by now.
func (c *faultyConn) deliver(t *testing.T, peer netip.AddrPort) (sent bool) {
	for p, ok := c.net.Receive(int64(*c.now)); ok; p, ok = c.net.Receive(int64(*c.now)) {
		to := c.routes[p.From]
		if to == nil {
			continue // The queue pair was closed.
		}
		sent = true
		if packet, err := wire.Decode(p.Data); err == nil {
			if id, ok := c.flow.Verify(packet); ok && id == 0 {
				c.forward(t, to, p.Data)
				continue
			}
		}
		_, err := c.damaged.WriteToUDPAddrPort(p.Data, peer)
		require.NoError(t, err)
	}
	c.Conn.Flush()
	return sent
}

func (c *faultyConn) forward(t *testing.T, to *udp.Route, data []byte) {
	b := c.Conn.Buffer(to, len(data))
	if b == nil {
		return // as if the packet was dropped
	}
	copy(b, data)
	p, err := wire.Decode(b)
	require.NoError(t, err)
	c.Conn.Push(to, p)
}

// A lossySide is one side of TestStreamOverLoss: a device, a loop and a stream.
type lossySide struct {
	stream.BaseHandler
	t      *testing.T
	loop   *reactor.Loop
	dev    *device
	shard  *qp.Shard
	conn   *faultyConn
	peer   netip.AddrPort // UDP address of the other side
	stream *stream.Stream
	send   randomBytes
	want   randomBytes
	closed bool
}

// randomBytes are bytes of a random generator, in small parts.
type randomBytes struct {
	generator *rand.ChaCha8
	left      int    // number of bytes that were not generated
	part      []byte // bytes that were generated and are not used
	memory    []byte
}

func newRandomBytes(seed uint64, size int) randomBytes {
	return randomBytes{generator: rand.NewChaCha8([32]byte{byte(seed)}), left: size, memory: make([]byte, 4096)}
}

// next returns the next bytes. At the end there are none.
func (r *randomBytes) next() []byte {
	if len(r.part) == 0 {
		r.part = r.memory[:min(r.left, len(r.memory))]
		_, _ = r.generator.Read(r.part) // It never fails.
		r.left -= len(r.part)
	}
	return r.part
}

// use removes the first n bytes of next.
func (r *randomBytes) use(n int) { r.part = r.part[n:] }

// newLossySide makes a side, which uses the virtual time now. The UDP addresses of this
// side and the other one are from and to.
func newLossySide(t *testing.T, now *time.Duration, from, to netip.AddrPort, seed uint64, send, want randomBytes) *lossySide {
	p, err := Open(&Config{Path: PathWire, WirePort: from.Port()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	s := &lossySide{t: t, dev: p.dev, send: send, want: want, peer: to}
	s.shard, err = p.dev.Shard(0, verbs.ProgressManual)
	require.NoError(t, err)
	s.shard.Clock = func() time.Duration { return *now }
	s.conn = newFaultyConn(t, s.shard.Demux.Conn, now, seed, from, to)
	s.shard.Demux.Conn = s.conn
	s.loop, err = reactor.NewLoop(p, reactor.BaseHandler{}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.loop.Close()) })
	return s
}

// turn delivers the packets of this side that are due, and runs its loop once. It returns
// whether a packet was delivered.
func (s *lossySide) turn() (sent bool) {
	sent = s.conn.deliver(s.t, s.peer)
	_, err := s.loop.RunOnce(0)
	require.NoError(s.t, err)
	return sent
}

// next returns the virtual time of the next packet or timer.
func (s *lossySide) next() time.Duration {
	next := time.Duration(math.MaxInt64)
	if at, ok := s.conn.net.Next(); ok {
		next = time.Duration(at)
	}
	if at, ok := s.shard.Timers.Next(); ok {
		next = min(next, at)
	}
	return next
}

func (s *lossySide) OnOpen(opened *stream.Stream) {
	s.stream = opened
	s.OnWritable(opened)
}

// OnWritable writes what is left, and then ends the writing direction.
func (s *lossySide) OnWritable(w *stream.Stream) {
	for b := s.send.next(); len(b) > 0; b = s.send.next() {
		n, err := w.Write(b)
		if s.send.use(n); n < len(b) {
			require.ErrorIs(s.t, err, stream.ErrWouldBlock)
			return
		}
	}
	require.NoError(s.t, w.CloseWrite())
}

func (s *lossySide) OnData(r *stream.Stream) {
	for r.Len() > 0 {
		want := s.want.next()
		n := min(len(want), len(r.Bytes()))
		require.True(s.t, n > 0 && bytes.Equal(want[:n], r.Bytes()[:n]))
		s.want.use(n)
		r.Discard(n)
	}
}

func (s *lossySide) OnEnd(*stream.Stream) { require.Empty(s.t, s.want.next()) }

func (s *lossySide) OnClose(_ *stream.Stream, err error) {
	require.NoError(s.t, err)
	s.closed = true
}

var streamBytes = flag.Int("stream-bytes", 300_000, "number of bytes that TestStreamOverLoss sends in each direction")

// TestStreamOverLoss sends bytes in both directions of a stream at once, in virtual time.
// The network loses, duplicates, reorders and damages packets of both sides. All bytes
// must arrive, and the stream must end without an error.
func TestStreamOverLoss(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			var now time.Duration
			bytesOf := func(seed uint64) randomBytes { return newRandomBytes(seed, *streamBytes) }
			port := freeport.UDP(t)
			at := func(addr string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(addr), port) }
			one, two := at("127.0.0.1"), at("127.0.0.2")
			server := newLossySide(t, &now, one, two, seed, bytesOf(1), bytesOf(2))
			client := newLossySide(t, &now, two, one, seed+100, bytesOf(2), bytesOf(1))
			b := stream.Buffers{Receive: 8 << 10, Send: 8 << 10}
			ln, err := stream.Listen(server.loop.Engine(), netip.AddrPortFrom(one.Addr(), 0), server, &stream.ListenOptions{Buffers: b})
			require.NoError(t, err)
			require.NoError(t, stream.Dial(client.loop.Engine(), ln.Addr(), client, &stream.DialOptions{
				Buffers: b, LocalAddr: netip.AddrPortFrom(two.Addr(), 0),
			}))
			// When several turns have sent nothing, the time is that of the next event.
			const quietTurns = 10
			for quiet := 0; !client.closed || !server.closed; now += turnTime {
				sent := client.turn()
				sent = server.turn() || sent
				if quiet++; sent {
					quiet = 0
				}
				if next := min(client.next(), server.next()); quiet > quietTurns && next < math.MaxInt64 {
					now = max(now, next)
				}
			}
			for _, s := range []*lossySide{client, server} {
				stats := s.conn.net.Stats
				t.Logf("%+v", stats)
				require.True(t, stats.Dropped > 0 && stats.Duplicated > 0 && stats.Reordered > 0 && stats.Corrupted > 0, "%+v", stats)
				for _, name := range []string{"rx_icrc_encapsulated", "duplicate_request", "out_of_seq_request"} {
					require.NotZero(t, s.counter(name), name)
				}
			}
			t.Logf("virtual time %v", now)
		})
	}
}

// counter returns a counter of the device by its name.
func (s *lossySide) counter(name string) uint64 {
	list, err := s.dev.Counters(1)
	require.NoError(s.t, err)
	for _, c := range list {
		if c.Name == name {
			return c.Value
		}
	}
	require.FailNow(s.t, "no counter "+name)
	return 0
}
