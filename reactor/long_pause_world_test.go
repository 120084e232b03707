//go:build linux

package reactor_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A pausingReader receives messages in all ways, and pauses now and then. While it pauses it
// gets none.
type pausingReader struct {
	longHooks
	t      *testing.T
	rng    *rand.Rand
	into   *reactor.Region
	paused bool
	got    [][]byte // the messages; nil for one that was discarded
	parts  []byte   // the parts of the present message
}

func newPausingReader(t *testing.T, rng *rand.Rand) *pausingReader {
	r := &pausingReader{t: t, rng: rng}
	r.long = func(c *reactor.Conn, m *reactor.LongMessage) {
		r.called()
		switch r.rng.IntN(4) {
		case 0:
			m.Parts()
		case 1:
			require.NoError(r.t, m.Accept(reactor.Piece{Region: r.into, Length: m.Len()}))
		case 2:
			if r.rng.IntN(3) == 0 {
				m.Discard()
				r.got = append(r.got, nil)
			}
		}
		r.pauseSometimes(c)
	}
	r.part = func(c *reactor.Conn, m *reactor.LongMessage, p reactor.Message) {
		r.called()
		require.Equal(r.t, len(r.parts), m.Offset())
		r.parts = append(r.parts, p.Data()...)
		if len(r.parts) == m.Len() {
			r.got = append(r.got, r.parts)
			r.parts = nil
		}
		r.pauseSometimes(c)
	}
	r.message = func(c *reactor.Conn, m reactor.Message) {
		r.called()
		r.got = append(r.got, bytes.Clone(m.Data()))
		r.pauseSometimes(c)
	}
	return r
}

func (r *pausingReader) called() {
	r.t.Helper()
	require.False(r.t, r.paused, "a callback while receiving is paused")
}

func (r *pausingReader) pauseSometimes(c *reactor.Conn) {
	if r.rng.IntN(3) == 0 {
		require.NoError(r.t, c.PauseRecv())
		r.paused = true
	}
}

// resume ends a pause, if there is one.
func (r *pausingReader) resume(c *reactor.Conn) {
	if r.paused {
		r.paused = false
		c.ResumeRecv()
	}
}

// TestPauseLongMessages checks long and short messages in all ways with many pauses: their
// bytes, their order, and that no READ is begun during a pause.
func TestPauseLongMessages(t *testing.T) {
	const messages = 60
	eachPauseCase(t, func(t *testing.T, k pauseCase) {
		for k.seed = range uint64(2) {
			cfg := &reactor.Config{MaxLongMessage: 1 << 20, MaxInFlight: 16, Transport: reactor.Transport{MinRNRTimer: 5 * time.Millisecond}}
			rng := rand.New(rand.NewPCG(k.seed, 0))
			r := newPausingReader(t, rng)
			var want [][]byte
			for i := range messages {
				size := rng.IntN(300)
				if rng.IntN(3) == 0 {
					size = 4097 + rng.IntN(1<<20-4096)
				}
				want = append(want, randomBytes(size, uint64(i)))
			}
			sent := 0
			send := func(c *reactor.Conn) {
				for sent < messages && c.Send(want[sent], nil) == nil {
					sent++
				}
			}
			k.run(t, &hooks{writable: send}, r, cfg, func(t *testing.T, p *pausePair) {
				p.onServer(func() { r.into = alloc(t, p.accepted, 1<<20, verbs.AccessLocalWrite) })
				p.onClient(func() { send(p.dialed) })
				for len(r.got) < messages {
					require.Less(t, p.Now(), time.Minute)
					p.For(50 * time.Microsecond)
					if r.paused {
						reads := 0
						p.onServer(func() { reads = reactor.LongReads(p.accepted) })
						p.For(100 * time.Millisecond)
						p.onServer(func() {
							require.LessOrEqual(t, reactor.LongReads(p.accepted), reads, "no READ is begun")
							require.LessOrEqual(t, reactor.HeldMessages(p.accepted), 2*cfg.MaxInFlight+reactor.LongWindow)
							r.resume(p.accepted)
						})
					}
				}
				for i := range want {
					require.True(t, r.got[i] == nil || bytes.Equal(want[i], r.got[i]), "message %d", i)
				}
				p.onServer(func() { r.resume(p.accepted) })
				p.For(time.Second)
				require.Len(t, r.got, messages)
				require.Zero(t, reactor.LongBytes(p.server.Loop(0)))
				require.Zero(t, reactor.HeldMessages(p.accepted))
			})
		}
	})
}

// TestPauseWithOwnLongMessages checks that long messages of the side that pauses are read
// meanwhile, while the peer sends no more than MaxInFlight messages. So a server that pauses
// until its answers are sent goes on.
func TestPauseWithOwnLongMessages(t *testing.T) {
	cfg := &reactor.Config{MaxLongMessage: 1 << 20, MaxInFlight: 16}
	eachPauseCase(t, func(t *testing.T, k pauseCase) {
		requests, answers, completed := 0, 0, 0
		server := &hooks{completion: func(_ *reactor.Conn, _ reactor.Op, err error) {
			require.NoError(t, err)
			completed++
		}}
		server.message = func(*reactor.Conn, reactor.Message) { requests++ }
		client := &hooks{message: func(*reactor.Conn, reactor.Message) { answers++ }}
		k.run(t, client, server, cfg, func(t *testing.T, p *pausePair) {
			p.onServer(func() { require.NoError(t, p.accepted.PauseRecv()) })
			for round := range 5 {
				p.onClient(func() { sendNumbers(p.dialed, 0, 3) })
				p.For(time.Millisecond)
				p.onServer(func() {
					require.NoError(t, p.accepted.Send(make([]byte, 1<<20), &reactor.OpOptions{Notify: true}))
				})
				p.Until(time.Second, func() bool { return completed == round+1 && answers == round+1 })
			}
			require.Zero(t, requests)
			p.onClient(func() { sendNumbers(p.dialed, 0, 16) })
			p.For(time.Second)
			require.GreaterOrEqual(t, reactor.HeldMessages(p.accepted), cfg.MaxInFlight)
			require.LessOrEqual(t, reactor.HeldMessages(p.accepted), 2*cfg.MaxInFlight)
			p.onServer(func() { p.accepted.ResumeRecv() })
			p.For(time.Second)
			require.Equal(t, 31, requests)
		})
	})
}

// TestPauseEndsLongMessage checks that a long message that was read during a pause is
// delivered when the connection ends, and that its memory is free afterwards.
func TestPauseEndsLongMessage(t *testing.T) {
	cfg := &reactor.Config{MaxLongMessage: 4 << 20}
	for _, parts := range []bool{false, true} {
		for _, byServer := range []bool{false, true} {
			got := 0
			server := &longHooks{long: func(c *reactor.Conn, m *reactor.LongMessage) {
				if parts {
					m.Parts()
				}
				c.Loop().After(0, func() { require.NoError(t, c.PauseRecv()) }) // when READs are under way
			}, part: func(_ *reactor.Conn, _ *reactor.LongMessage, p reactor.Message) { got += len(p.Data()) }}
			server.message = func(_ *reactor.Conn, m reactor.Message) { got += len(m.Data()) }
			pauseCase{wire: true}.run(t, &hooks{}, server, cfg, func(t *testing.T, p *pausePair) {
				p.onClient(func() { require.NoError(t, p.dialed.Send(make([]byte, 1<<20), nil)) })
				p.For(time.Second)
				require.Zero(t, got)
				require.NotZero(t, reactor.LongReads(p.accepted))
				if byServer {
					p.onServer(func() { require.NoError(t, p.accepted.Close()) })
				} else {
					p.onClient(func() { require.NoError(t, p.dialed.Abort(nil)) })
				}
				p.Until(time.Minute, func() bool { return p.acceptCloses > 0 })
				switch {
				case byServer:
					require.Zero(t, got)
					require.EqualValues(t, 1, p.server.Stats().Discarded)
				default:
					require.Equal(t, 1<<20, got)
				}
				require.Zero(t, reactor.LongBytes(p.server.Loop(0)))
			})
		}
	}
}
