//go:build linux

package soft

import (
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
	send   []byte // bytes that were not written yet
	want   []byte // bytes that have not arrived yet
	closed bool
}

// newLossySide makes a side. The clock of its device runs a thousand times faster than
// the real one, so that the test does not wait for retransmission timers.
func newLossySide(t *testing.T, port uint16, seed uint64, send, want []byte) *lossySide {
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
	n, err := w.Write(s.send)
	if s.send = s.send[n:]; len(s.send) > 0 {
		require.ErrorIs(s.t, err, stream.ErrWouldBlock)
		return
	}
	require.NoError(s.t, err)
	require.NoError(s.t, w.CloseWrite())
}

func (s *lossySide) OnData(r *stream.Stream) {
	for r.Len() > 0 {
		b := r.Bytes()
		require.Equal(s.t, s.want[:len(b)], b)
		s.want = s.want[r.Discard(len(b)):]
	}
}

func (s *lossySide) OnEnd(*stream.Stream) { require.Empty(s.t, s.want) }

func (s *lossySide) OnClose(_ *stream.Stream, err error) {
	require.NoError(s.t, err)
	s.closed = true
}

// TestStreamOverLoss sends bytes in both directions of a stream at once. Each side loses
// 5 % of its packets. All bytes must arrive, and the stream must end without an error.
func TestStreamOverLoss(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.NewChaCha8([32]byte{byte(seed)})
			there, back := make([]byte, 300_000), make([]byte, 200_000)
			_, _ = random.Read(there) // It never fails.
			_, _ = random.Read(back)
			port := cmside.FreePort(t)
			server := newLossySide(t, port, seed, back, there)
			client := newLossySide(t, port, seed+100, there, back)
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
