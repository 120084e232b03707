package stream_test

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
)

const testTimeout = 30 * time.Second

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// hooks is a Handler that calls the functions in its fields. A nil field acts like
// BaseHandler.
type hooks struct {
	stream.BaseHandler
	request     func(*stream.Request)
	acceptError func(*stream.Request, error)
	dialError   func(*stream.DialOptions, error)
	open        func(*stream.Stream)
	data        func(*stream.Stream)
	writable    func(*stream.Stream)
	end         func(*stream.Stream)
	close       func(*stream.Stream, error)
}

func (h *hooks) OnRequest(r *stream.Request) {
	if h.request == nil {
		h.BaseHandler.OnRequest(r)
		return
	}
	h.request(r)
}

func (h *hooks) OnAcceptError(r *stream.Request, err error) {
	if h.acceptError != nil {
		h.acceptError(r, err)
	}
}

func (h *hooks) OnDialError(_ *reactor.Loop, _ netip.AddrPort, o *stream.DialOptions, err error) {
	if h.dialError != nil {
		h.dialError(o, err)
	}
}

func (h *hooks) OnOpen(s *stream.Stream) {
	if h.open != nil {
		h.open(s)
	}
}

func (h *hooks) OnData(s *stream.Stream) {
	if h.data == nil {
		h.BaseHandler.OnData(s)
		return
	}
	h.data(s)
}

func (h *hooks) OnWritable(s *stream.Stream) {
	if h.writable != nil {
		h.writable(s)
	}
}

func (h *hooks) OnEnd(s *stream.Stream) {
	if h.end == nil {
		h.BaseHandler.OnEnd(s)
		return
	}
	h.end(s)
}

func (h *hooks) OnClose(s *stream.Stream, err error) {
	if h.close != nil {
		h.close(s, err)
	}
}

// A path is a configuration of the soft device, and the local address of clients.
type path struct {
	soft   soft.Config
	client netip.AddrPort
}

// onPaths runs the test on the local path and on the wire path.
func onPaths(t *testing.T, test func(t *testing.T, p path)) {
	t.Run("local", func(t *testing.T) { test(t, path{soft: soft.Config{Path: soft.PathLocal}}) })
	t.Run("wire", func(t *testing.T) {
		test(t, path{soft.Config{Path: soft.PathWire, WirePort: freeport.UDP(t)}, netip.MustParseAddrPort("127.0.0.2:0")})
	})
}

// newLoop makes a loop with a device of its own, which the test runs with RunOnce.
func newLoop(t testing.TB, p path, cfg *reactor.Config) *reactor.Loop {
	l, _ := newLoopOn(t, p, cfg)
	return l
}

// newLoopOn is newLoop, and also returns the device.
func newLoopOn(t testing.TB, p path, cfg *reactor.Config) (*reactor.Loop, *soft.Provider) {
	device, err := soft.Open(&p.soft)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, device.Close()) })
	l, err := reactor.NewLoop(device, reactor.BaseHandler{}, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l, device
}

// A pair is two loops with a stream between them.
type pair struct {
	client, server   *reactor.Loop
	dialed, accepted *stream.Stream
}

// connect opens a stream between two loops.
func connect(t testing.TB, p path, client, server *hooks, b stream.Buffers) *pair {
	e := &pair{client: newLoop(t, p, nil), server: newLoop(t, p, nil)}
	clientOpen, serverOpen := client.open, server.open
	noteFirst := func(first **stream.Stream, then func(*stream.Stream)) func(*stream.Stream) {
		return func(s *stream.Stream) {
			if *first == nil {
				*first = s
			}
			if then != nil {
				then(s)
			}
		}
	}
	client.open, server.open = noteFirst(&e.dialed, clientOpen), noteFirst(&e.accepted, serverOpen)
	ln, err := stream.Listen(e.server.Engine(), loopback, server, &stream.ListenOptions{Buffers: b})
	require.NoError(t, err)
	require.NoError(t, stream.Dial(e.client.Engine(), ln.Addr(), client, &stream.DialOptions{Buffers: b, LocalAddr: p.client}))
	e.drive(t, func() bool { return e.dialed != nil && e.accepted != nil })
	return e
}

// drive runs both loops in turn until cond() returns true.
func (e *pair) drive(t testing.TB, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(testTimeout)
	for turn := 0; !cond(); turn++ {
		if turn%1024 == 0 && time.Now().After(deadline) {
			require.FailNow(t, "the condition did not become true in time")
		}
		for _, l := range []*reactor.Loop{e.client, e.server} {
			_, err := l.RunOnce(0)
			require.NoError(t, err)
		}
	}
}

// A sender writes random bytes from a seed, in pieces of random sizes, and then ends its
// writing direction.
type sender struct {
	t      testing.TB
	random *rand.Rand
	left   []byte // bytes that were not written yet
}

func newSender(t testing.TB, seed uint64, size int) (*sender, []byte) {
	random := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return &sender{t, random, b}, b
}

func (w *sender) write(s *stream.Stream) {
	for len(w.left) > 0 {
		size := min(len(w.left), 1+w.random.IntN(1<<w.random.IntN(18)))
		n, err := s.Write(w.left[:size])
		w.left = w.left[n:]
		if n < size {
			require.ErrorIs(w.t, err, stream.ErrWouldBlock)
			return
		}
		require.NoError(w.t, err)
	}
	require.NoError(w.t, s.CloseWrite())
}

// TestBothDirections checks that both sides get all bytes of the other side, through
// buffers much smaller than the number of bytes, and that the stream then ends without an
// error.
func TestBothDirections(t *testing.T) {
	onPaths(t, func(t *testing.T, p path) {
		const size = 3 << 20
		up, upBytes := newSender(t, 1, size)
		down, downBytes := newSender(t, 2, size)
		var gotUp, gotDown []byte
		closed := 0
		side := func(w *sender, got *[]byte) *hooks {
			return &hooks{
				open: w.write, writable: w.write,
				data: func(s *stream.Stream) {
					for s.Len() > 0 {
						*got = append(*got, s.Bytes()...)
						s.Discard(len(s.Bytes()))
					}
				},
				end:   func(s *stream.Stream) { require.True(t, s.Ended()) },
				close: func(_ *stream.Stream, err error) { require.NoError(t, err); closed++ },
			}
		}
		e := connect(t, p, side(up, &gotDown), side(down, &gotUp), stream.Buffers{Receive: 10_001, Send: 20_000})
		e.drive(t, func() bool { return closed == 2 })
		require.True(t, bytes.Equal(upBytes, gotUp))
		require.True(t, bytes.Equal(downBytes, gotDown))
	})
}

// TestPrivateDataSizes checks the constants of this package against the limits of the
// connection manager.
func TestPrivateDataSizes(t *testing.T) {
	const protocol = 40
	require.Equal(t, cm.MaxPrivateData(cm.TCP, cm.MessageConnect)-protocol, stream.MaxRequestData)
	require.Equal(t, cm.MaxPrivateData(cm.TCP, cm.MessageAccept)-protocol, stream.MaxReplyData)
}
