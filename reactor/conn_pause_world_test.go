//go:build linux

package reactor_test

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A pausePair is a connection of a client to a server that pauses receiving.
type pausePair struct {
	*reactortest.World
	pair
	server, client *reactor.Engine
	serverHost     *reactortest.Host
	serverProcess  *reactortest.Process
	clientProcess  *reactortest.Process
}

// A pauseCase is a device and a path on which receiving can be paused.
type pauseCase struct {
	wire  bool // the client is on another host
	own   bool // the server's connections have receive queues of their own
	plain bool // the device can not hold back one queue pair
	// both sides have these options
	immediatesOnly bool
	messageTime    bool
	seed           uint64
}

var pauseCases = map[string]pauseCase{
	"local":             {},
	"wire":              {wire: true},
	"local, own queue":  {own: true},
	"wire, own queue":   {wire: true, own: true},
	"local, no ability": {own: true, plain: true},
	"wire, no ability":  {wire: true, own: true, plain: true},
}

// run connects a client to a server in a world, and calls fn.
func (k pauseCase) run(t *testing.T, client, server reactor.Handler, cfg *reactor.Config, fn func(t *testing.T, p *pausePair)) {
	reactortest.Run(t, max(1, k.seed), func(t *testing.T, w *reactortest.World) {
		p := &pausePair{World: w, serverHost: w.Host("server")}
		watch(client.(interface{ own() *hooks }).own(), &p.dialed, &p.dialCloseErr, &p.dialCloses)
		watch(server.(interface{ own() *hooks }).own(), &p.accepted, &p.acceptCloseErr, &p.acceptCloses)
		p.serverProcess = p.serverHost.Process("server")
		p.server = k.startServer(t, p.serverProcess, server, quiet(cfg))
		_, err := p.server.Listen(p.serverHost.AddrPort(1), &reactor.ListenOptions{OwnRecvQueue: k.own, ImmediatesOnly: k.immediatesOnly, MessageTime: k.messageTime})
		require.NoError(t, err)
		host := p.serverHost
		if k.wire {
			host = w.Host("client")
		}
		p.clientProcess = host.Process("client")
		p.client = p.clientProcess.Start(client, quiet(cfg))
		require.NoError(t, p.client.Dial(p.serverHost.AddrPort(1), &reactor.DialOptions{ImmediatesOnly: k.immediatesOnly, MessageTime: k.messageTime}))
		p.Until(testTimeout, func() bool { return p.dialed != nil && p.accepted != nil })
		fn(t, p)
	})
}

func (k pauseCase) startServer(t *testing.T, process *reactortest.Process, h reactor.Handler, cfg *reactor.Config) *reactor.Engine {
	if !k.plain {
		return process.Start(h, cfg)
	}
	provider, err := newStrictProvider(process.Open(nil), nil, func(caps *verbs.Caps) { caps.RecvModes = false })
	require.NoError(t, err)
	provider.plainQPs = true
	e, err := reactor.New(provider, h, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { shutdown(t, e) })
	require.NoError(t, e.Start())
	return e
}

func (p *pausePair) onServer(fn func()) { p.On(p.server.Loop(0), fn) }
func (p *pausePair) onClient(fn func()) { p.On(p.client.Loop(0), fn) }

// eachPauseCase runs a test for all cases.
func eachPauseCase(t *testing.T, test func(t *testing.T, k pauseCase)) {
	for name, k := range pauseCases {
		t.Run(name, func(t *testing.T) { test(t, k) })
	}
}

// A pausingQueue has answers that wait for room in the send queue. While it has its limit, the
// connection receives nothing.
type pausingQueue struct {
	answers [][]byte
	limit   int
	paused  bool
	most    int // largest number of answers
	pauses  int
}

func (b *pausingQueue) add(t *testing.T, c *reactor.Conn, answer []byte) {
	require.False(t, b.paused, "OnMessage while receiving is paused")
	b.answers = append(b.answers, slices.Clone(answer))
	b.flush(c)
	b.most = max(b.most, len(b.answers))
	if len(b.answers) >= b.limit {
		require.NoError(t, c.PauseRecv())
		b.paused = true
		b.pauses++
	}
}

func (b *pausingQueue) flush(c *reactor.Conn) {
	for len(b.answers) > 0 && c.Send(b.answers[0], nil) == nil {
		b.answers = b.answers[1:]
	}
	if len(b.answers) == 0 && b.paused {
		b.paused = false
		c.ResumeRecv()
	}
}

// TestPauseForSlowClient checks a server that queues up to 64 answers for a client that reads
// them slowly: all answers arrive in order, what the server holds is bounded, and another
// client is not delayed.
func TestPauseForSlowClient(t *testing.T) {
	const requests, burst = 800, 8
	cfg := &reactor.Config{MaxInFlight: 16}
	eachPauseCase(t, func(t *testing.T, k pauseCase) {
		b := &pausingQueue{limit: 64}
		var slow *reactor.Conn // at the server
		used, held := 0, 0
		server := &hooks{open: func(c *reactor.Conn) {
			if slow == nil {
				slow = c
			}
		}}
		server.message = func(c *reactor.Conn, m reactor.Message) {
			if c != slow {
				require.NoError(t, c.Send(m.Data(), nil))
				return
			}
			b.add(t, c, m.Data())
			used, held = max(used, reactor.UsedBuffers(c.Loop())), max(held, reactor.HeldMessages(c))
		}
		server.writable = func(c *reactor.Conn) { b.flush(c) }

		sent, got := uint32(0), uint32(0)
		request := make([]byte, 2*verbs.InlineBytes)
		send := func(c *reactor.Conn) {
			for sent < requests {
				binary.BigEndian.PutUint32(request, sent)
				if c.Send(request[:4+int(sent)%len(request[4:])], nil) != nil {
					return
				}
				sent++
			}
		}
		client := &hooks{writable: send}
		client.message = func(c *reactor.Conn, m reactor.Message) {
			require.Equal(t, got, binary.BigEndian.Uint32(m.Data()), "the order")
			if got++; got%burst == 0 {
				require.NoError(t, c.PauseRecv())
				c.Loop().After(time.Millisecond, c.ResumeRecv)
			}
		}
		k.run(t, client, server, cfg, func(t *testing.T, p *pausePair) {
			other := p.Dial(p.Host("other").Process("client").Start(&hooks{}, quiet(cfg)), p.serverHost.AddrPort(1), nil)
			idle := reactor.UsedBuffers(p.server.Loop(0))
			p.onClient(func() { send(p.dialed) })
			for got < requests {
				require.Less(t, p.Now(), time.Minute)
				begin := p.Now()
				require.Equal(t, "quick", string(other.Exchange([]byte("quick"))))
				require.Less(t, p.Now()-begin, time.Millisecond)
				p.For(time.Millisecond)
				used, held = max(used, reactor.UsedBuffers(p.server.Loop(0))), max(held, reactor.HeldMessages(p.accepted))
			}
			require.Greater(t, b.pauses, 5)
			require.Equal(t, 64, b.most)
			require.EqualValues(t, requests, sent)
			require.LessOrEqual(t, held, cfg.MaxInFlight)
			require.LessOrEqual(t, used, idle+held+2*cfg.MaxInFlight, "answers, messages that are held, and the other client's")
			p.For(time.Second)
			require.LessOrEqual(t, reactor.UsedBuffers(p.server.Loop(0)), idle+cfg.MaxInFlight)
		})
	})
}

// numbers returns a function for hooks.message that checks the numbers of messages and counts
// them.
func numbers(t *testing.T, got *int) func(*reactor.Conn, reactor.Message) {
	return func(_ *reactor.Conn, m reactor.Message) {
		require.Equal(t, *got, int(binary.BigEndian.Uint32(m.Data())))
		*got++
	}
}

// sendNumbers sends messages with the numbers from first to first+n-1, and returns how many
// were accepted. Every other message is too long for verbs.InlineBytes.
func sendNumbers(c *reactor.Conn, first, n int) (sent int) {
	b := make([]byte, 2*verbs.InlineBytes)
	for ; sent < n; sent++ {
		binary.BigEndian.PutUint32(b, uint32(first+sent))
		if c.Send(b[:4+sent%2*verbs.InlineBytes], nil) != nil {
			break
		}
	}
	return sent
}

// TestPauseInBatch checks that a pause takes effect within a batch of completions, however
// often the handler pauses and goes on, and that ResumeRecv calls no OnMessage.
func TestPauseInBatch(t *testing.T) {
	eachPauseCase(t, func(t *testing.T, k pauseCase) {
		got := 0
		next := numbers(t, &got)
		inResume := false
		server := &hooks{message: func(c *reactor.Conn, m reactor.Message) {
			require.False(t, inResume)
			next(c, m)
			require.NoError(t, c.PauseRecv())
			require.NoError(t, c.PauseRecv(), "a second call does nothing")
		}}
		k.run(t, &hooks{}, server, nil, func(t *testing.T, p *pausePair) {
			p.onClient(func() { require.Equal(t, 40, sendNumbers(p.dialed, 0, 40)) })
			for i := range 40 {
				p.For(100 * time.Millisecond)
				require.Equal(t, i+1, got)
				p.onServer(func() {
					inResume = true
					p.accepted.ResumeRecv()
					p.accepted.ResumeRecv()
					inResume = false
				})
			}
			p.For(time.Second)
			require.Zero(t, reactor.HeldMessages(p.accepted))
			p.onClient(func() { require.Equal(t, 1, sendNumbers(p.dialed, 40, 1)) })
			p.For(100 * time.Millisecond)
			require.Equal(t, 41, got)
		})
	})
}

// TestPauseHoldsBackPeer checks that the peer's sends wait during a pause of 10 s, also with
// long messages, that neither side takes the other for dead, and that the peer goes on within
// 10 ms afterwards.
func TestPauseHoldsBackPeer(t *testing.T) {
	const inFlight = 16
	eachPauseCase(t, func(t *testing.T, k pauseCase) {
		for _, long := range []int{0, 1 << 20} {
			cfg := &reactor.Config{Transport: reactor.Transport{Keepalive: time.Second}, MaxInFlight: inFlight, MaxLongMessage: long}
			if k.plain {
				cfg.Transport.MinRNRTimer = 10 * time.Millisecond
			}
			held := 0
			if k.plain || long > 0 { // the buffers of the receive queue; see holdBackPeer
				held = inFlight
			}
			got := 0
			k.run(t, &hooks{}, &hooks{message: numbers(t, &got)}, cfg, func(t *testing.T, p *pausePair) {
				p.onServer(func() { require.NoError(t, p.accepted.PauseRecv()) })
				sent := 0
				for range 3 {
					p.onClient(func() { sent += sendNumbers(p.dialed, sent, 1000) })
					p.For(time.Second)
				}
				require.LessOrEqual(t, sent, held+inFlight)
				require.Zero(t, got)
				require.Equal(t, held, reactor.HeldMessages(p.accepted))
				require.NotZero(t, p.server.Stats().Keepalives)
				p.onServer(func() { p.accepted.ResumeRecv() })
				p.For(10 * time.Millisecond)
				require.Equal(t, sent, got)
				require.Zero(t, p.dialCloses+p.acceptCloses)
			})
		}
	})
}

// TestPauseEnds checks what OnMessage gets when a connection ends during a pause, with one
// message received before and five that are held.
func TestPauseEnds(t *testing.T) {
	const all, early = 6, 1
	for name, test := range map[string]struct {
		end       func(p *pausePair)
		err       error // argument of OnClose at the server; nil with all: any error
		delivered int
	}{
		"the peer closes":   {func(p *pausePair) { p.onClient(func() { _ = p.dialed.Close() }) }, reactor.ErrPeerClosed, all},
		"the peer aborts":   {func(p *pausePair) { p.onClient(func() { _ = p.dialed.Abort(nil) }) }, reactor.ErrPeerClosed, all},
		"the peer is gone":  {func(p *pausePair) { p.clientProcess.Kill() }, verbs.ErrPeerGone, all},
		"the device fails":  {func(p *pausePair) { p.serverProcess.FailDevice(nil) }, nil, all},
		"timeout":           {func(p *pausePair) { p.onServer(func() { p.accepted.SetTimeout(time.Second) }) }, reactor.ErrTimeout, early},
		"idle":              {func(p *pausePair) { p.onServer(func() { p.accepted.SetIdleTimeout(time.Second) }) }, reactor.ErrIdle, early},
		"Close":             {func(p *pausePair) { p.onServer(func() { _ = p.accepted.Close() }) }, nil, early},
		"Abort":             {func(p *pausePair) { p.onServer(func() { _ = p.accepted.Abort(nil) }) }, reactor.ErrAborted, early},
		"Stop":              {func(p *pausePair) { p.server.Stop() }, nil, early},
		"ResumeRecv, Close": {func(p *pausePair) { p.onServer(func() { p.accepted.ResumeRecv(); _ = p.accepted.Close() }) }, nil, early},
	} {
		t.Run(name, func(t *testing.T) {
			got := 0
			next := numbers(t, &got)
			server := &hooks{message: func(c *reactor.Conn, m reactor.Message) {
				next(c, m)
				if got == early {
					require.NoError(t, c.PauseRecv())
				}
			}}
			pauseCase{}.run(t, &hooks{}, server, nil, func(t *testing.T, p *pausePair) {
				p.onClient(func() { require.Equal(t, all, sendNumbers(p.dialed, 0, all)) })
				p.For(time.Second)
				require.Equal(t, all-early, reactor.HeldMessages(p.accepted))
				before := reactor.UsedBuffers(p.server.Loop(0))
				test.end(p)
				p.Until(time.Minute, func() bool { return p.acceptCloses > 0 })
				if test.err != nil || test.delivered == early {
					require.ErrorIs(t, p.acceptCloseErr, test.err)
				} else {
					require.Error(t, p.acceptCloseErr)
				}
				require.Equal(t, test.delivered, got)
				require.EqualValues(t, all-test.delivered, p.server.Stats().Discarded)
				require.LessOrEqual(t, reactor.UsedBuffers(p.server.Loop(0)), before-(all-early))
				p.For(time.Minute)
				require.Equal(t, test.delivered, got)
				require.Equal(t, 1, p.acceptCloses)
			})
		})
	}
}

// TestPauseUntilStop checks that a handler can go on receiving before it closes, at once or
// later, and that the messages that arrive until then wait behind those that are held.
func TestPauseUntilStop(t *testing.T) {
	eachPauseCase(t, func(t *testing.T, k pauseCase) {
		got := 0
		server := &stopHooks{hooks: hooks{open: func(c *reactor.Conn) { require.NoError(t, c.PauseRecv()) }}}
		server.message = numbers(t, &got)
		server.stop = func(c *reactor.Conn) {
			c.Loop().After(time.Second/2, c.ResumeRecv)
			c.Loop().After(2*time.Second, func() { require.NoError(t, c.Close()) })
		}
		k.run(t, &hooks{}, server, nil, func(t *testing.T, p *pausePair) {
			p.onClient(func() { require.Equal(t, 6, sendNumbers(p.dialed, 0, 6)) })
			p.For(time.Second)
			p.server.Stop()
			p.onClient(func() { require.Equal(t, 4, sendNumbers(p.dialed, 6, 4)) })
			p.For(time.Second / 4)
			require.Zero(t, got)
			p.Until(time.Minute, func() bool { return p.acceptCloses > 0 })
			require.NoError(t, p.acceptCloseErr)
			require.Equal(t, 10, got)
		})
	})
}

// TestPauseOfClosingPeer checks that Close of a peer that waits ends with ErrDrainTimeout.
func TestPauseOfClosingPeer(t *testing.T) {
	cfg := &reactor.Config{Limits: reactor.Limits{DrainTimeout: time.Second}}
	pauseCase{}.run(t, &hooks{}, &hooks{}, cfg, func(t *testing.T, p *pausePair) {
		p.onServer(func() { require.NoError(t, p.accepted.PauseRecv()) })
		p.onClient(func() { sendNumbers(p.dialed, 0, 1); require.NoError(t, p.dialed.Close()) })
		p.Until(time.Minute, func() bool { return p.dialCloses > 0 })
		require.ErrorIs(t, p.dialCloseErr, reactor.ErrDrainTimeout)
	})
}

// TestPauseWithFewRetries checks that the connection of a peer with a limited RNR retry count
// ends during a long pause, and not during a short one.
func TestPauseWithFewRetries(t *testing.T) {
	cfg := &reactor.Config{Transport: reactor.Transport{RNRRetryCount: 4}}
	for _, wire := range []bool{false, true} {
		got := 0
		pauseCase{wire: wire}.run(t, &hooks{}, &hooks{message: numbers(t, &got)}, cfg, func(t *testing.T, p *pausePair) {
			for _, pause := range []time.Duration{5 * time.Millisecond, 5 * time.Millisecond, time.Second} {
				p.onServer(func() { require.NoError(t, p.accepted.PauseRecv()) })
				p.onClient(func() { sendNumbers(p.dialed, got, 1) })
				p.For(pause)
				p.onServer(func() { p.accepted.ResumeRecv() })
				p.For(time.Second)
			}
			require.Equal(t, 2, got)
			var failed *verbs.CompletionError
			require.ErrorAs(t, p.dialCloseErr, &failed)
			require.Equal(t, verbs.StatusRNRRetryExcErr, failed.Status)
		})
	}
}

// TestPauseErrors checks the errors of PauseRecv, and that the option OwnRecvQueue helps on a
// device that can not hold back one connection of a shared receive queue.
func TestPauseErrors(t *testing.T) {
	server := &hooks{open: func(c *reactor.Conn) {}}
	pauseCase{plain: true}.run(t, &hooks{}, server, nil, func(t *testing.T, p *pausePair) {
		p.onServer(func() {
			err := p.accepted.PauseRecv()
			var feature *verbs.FeatureError
			require.ErrorAs(t, err, &feature)
			require.EqualError(t, err, "rdma: pause receiving: holding back one connection: not supported: the connections of the loop share receive buffers: set DialOptions.OwnRecvQueue or ListenOptions.OwnRecvQueue")
			p.accepted.ResumeRecv()
		})
		p.onClient(func() { require.NoError(t, p.dialed.Close()) })
		p.Until(time.Minute, func() bool { return p.acceptCloses > 0 })
		p.onServer(func() { require.ErrorIs(t, p.accepted.PauseRecv(), reactor.ErrClosed) })
		p.onServer(func() { p.accepted.ResumeRecv() })
		_, err := p.server.Listen(p.serverHost.AddrPort(2), &reactor.ListenOptions{OwnRecvQueue: true})
		require.NoError(t, err)
		p.accepted = nil
		require.NoError(t, p.client.Dial(p.serverHost.AddrPort(2), &reactor.DialOptions{OwnRecvQueue: true}))
		p.Until(time.Minute, func() bool { return p.accepted != nil })
		p.onServer(func() { require.NoError(t, p.accepted.PauseRecv()) })
	})
}

// TestPauseImmediates checks a pause of a connection without receive buffers, also after
// Close, from which on its messages are still delivered.
func TestPauseImmediates(t *testing.T) {
	cfg := &reactor.Config{MaxInFlight: 8, Transport: reactor.Transport{MinRNRTimer: 10 * time.Millisecond}}
	eachPauseCase(t, func(t *testing.T, k pauseCase) {
		k.immediatesOnly = true
		got, sent := uint32(0), uint32(0)
		server := &hooks{message: func(c *reactor.Conn, m reactor.Message) {
			imm, ok := m.Imm()
			require.True(t, ok)
			require.Equal(t, got, imm)
			if got++; got%3 == 0 {
				_ = c.PauseRecv()
			}
		}}
		send := func(c *reactor.Conn) {
			for sent < 100 && c.Send(nil, &reactor.OpOptions{HasImm: true, Imm: sent}) == nil {
				sent++
			}
		}
		k.run(t, &hooks{writable: send}, server, cfg, func(t *testing.T, p *pausePair) {
			p.onClient(func() { send(p.dialed) })
			for got < 51 {
				require.Less(t, p.Now(), time.Minute)
				p.For(100 * time.Millisecond)
				require.Zero(t, got%3)
				require.LessOrEqual(t, reactor.HeldMessages(p.accepted), cfg.MaxInFlight)
				p.onServer(p.accepted.ResumeRecv)
				p.For(time.Millisecond)
			}
			p.For(time.Second)
			held := uint32(reactor.HeldMessages(p.accepted))
			before := got
			p.onServer(func() { require.NoError(t, p.accepted.Close()) })
			p.Until(time.Minute, func() bool { return p.acceptCloses > 0 })
			require.NoError(t, p.acceptCloseErr)
			require.GreaterOrEqual(t, got, before+held)
			require.Zero(t, p.server.Stats().Discarded)
		})
	})
}
