//go:build linux

package soft

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A lossyConn is a packetConn that loses packets as a simulated network does.
type lossyConn struct {
	packetConn
	net *netsim.Net
}

func (c *lossyConn) Push(to *udp.Route, p wire.Packet) {
	c.net.Send(0, netsim.Packet{Data: p.Bytes()})
	if _, arrives := c.net.Receive(0); arrives {
		c.packetConn.Push(to, p)
	}
}

// A lossySide is one side of TestStreamOverLoss: a device, a loop and a stream.
type lossySide struct {
	stream.BaseHandler
	t      *testing.T
	loop   *reactor.Loop
	conn   *lossyConn
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

// newLossySide makes a side. The clock of its device runs a thousand times faster than
// the real one, so that the test does not wait for retransmission timers.
func newLossySide(t *testing.T, port uint16, seed uint64, send, want randomBytes) *lossySide {
	p, err := Open(&Config{Vectors: 1, Path: PathWire, WirePort: port})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	s := &lossySide{t: t, send: send, want: want}
	shard, err := p.dev.shard(0, verbs.ProgressManual)
	require.NoError(t, err)
	begin := time.Now()
	shard.clock = func() time.Duration { return 1000 * time.Since(begin) }
	s.conn = &lossyConn{shard.demux.conn, netsim.New(seed, netsim.Config{Drop: 0.05})}
	shard.demux.conn = s.conn
	s.loop, err = reactor.NewLoop(p, reactor.BaseHandler{}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.loop.Close()) })
	return s
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

// TestStreamOverLoss sends bytes in both directions of a stream at once. Each side loses
// 5 % of its packets. All bytes must arrive, and the stream must end without an error.
func TestStreamOverLoss(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bytesOf := func(seed uint64) randomBytes { return newRandomBytes(seed, *streamBytes) }
			port := cmside.FreePort(t)
			server := newLossySide(t, port, seed, bytesOf(1), bytesOf(2))
			client := newLossySide(t, port, seed+100, bytesOf(2), bytesOf(1))
			b := stream.Buffers{Receive: 8 << 10, Send: 8 << 10}
			ln, err := stream.Listen(server.loop.Engine(), netip.MustParseAddrPort("127.0.0.1:0"), server, &stream.ListenOptions{Buffers: b})
			require.NoError(t, err)
			require.NoError(t, stream.Dial(client.loop.Engine(), ln.Addr(), client, &stream.DialOptions{
				Buffers: b, LocalAddr: netip.MustParseAddrPort("127.0.0.2:0"),
			}))
			for !client.closed || !server.closed {
				for _, s := range []*lossySide{client, server} {
					_, err := s.loop.RunOnce(0)
					require.NoError(t, err)
				}
			}
			require.NotZero(t, client.conn.net.Stats.Dropped)
			require.NotZero(t, server.conn.net.Stats.Dropped)
		})
	}
}
