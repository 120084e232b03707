//go:build linux

package reactor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
)

const (
	// networkDelay is how long a packet takes.
	networkDelay = 3 * time.Millisecond
	// worldTick is how far a world may be ahead of the clock that its programs read.
	worldTick = 50 * time.Microsecond
)

// A timedMessage is what OnMessage or OnPart has got.
type timedMessage struct {
	size int
	time time.Time // Message.Time
	now  time.Time // time of the callback
}

// A timeRecorder records the times of received messages.
type timeRecorder struct {
	longHooks
	got []timedMessage
}

func newTimeRecorder() *timeRecorder {
	r := &timeRecorder{}
	r.message = func(_ *reactor.Conn, m reactor.Message) { r.record(m) }
	r.part = func(_ *reactor.Conn, _ *reactor.LongMessage, part reactor.Message) { r.record(part) }
	return r
}

func (r *timeRecorder) record(m reactor.Message) {
	r.got = append(r.got, timedMessage{len(m.Data()), m.Time(), time.Now()})
}

// reportsArrival reports whether the device knows when a message has arrived.
func (k pauseCase) reportsArrival() bool { return k.wire && !k.plain }

// wantTime requires the time of a message that was sent at the time sent.
func (k pauseCase) wantTime(t *testing.T, m timedMessage, sent time.Time) {
	t.Helper()
	if !k.reportsArrival() {
		require.Equal(t, m.now.UnixNano(), m.time.UnixNano(), "the time of the turn")
		return
	}
	require.GreaterOrEqual(t, m.time.Sub(sent), networkDelay)
	require.Less(t, m.time.Sub(sent), networkDelay+worldTick)
	require.LessOrEqual(t, m.time.UnixNano(), m.now.UnixNano())
}

// TestMessageTime checks Message.Time of messages with and without a receive buffer, of
// several packets, with immediate data, and of those without bytes.
func TestMessageTime(t *testing.T) {
	eachPauseCase(t, func(t *testing.T, k pauseCase) {
		k.messageTime = true
		for _, k.immediatesOnly = range []bool{false, true} {
			r := newTimeRecorder()
			k.run(t, &hooks{}, r, nil, func(t *testing.T, p *pausePair) {
				p.SetFaults(reactortest.Faults{Delay: networkDelay})
				for i, size := range []int{0, 1, 96, 97, 4096, 1} {
					if k.immediatesOnly {
						size = 0
					}
					var sent time.Time
					p.onClient(func() {
						sent = time.Now()
						o := reactor.OpOptions{HasImm: i%2 == 0}
						require.NoError(t, p.dialed.Send(make([]byte, size), &o))
					})
					p.Until(testTimeout, func() bool { return len(r.got) > i })
					require.Equal(t, size, r.got[i].size)
					k.wantTime(t, r.got[i], sent)
				}
			})
		}
	})
}

// TestMessageTimeOfStoppedProcess checks the times of messages that arrive while the process
// is stopped: on the wire path those of arrival. Otherwise all have the same, that of the
// turn.
func TestMessageTimeOfStoppedProcess(t *testing.T) {
	const messages, apart, stopped = 5, 100 * time.Microsecond, 500 * time.Millisecond
	eachPauseCase(t, func(t *testing.T, k pauseCase) {
		k.messageTime = true
		r := newTimeRecorder()
		k.run(t, &hooks{}, r, nil, func(t *testing.T, p *pausePair) {
			p.SetFaults(reactortest.Faults{Delay: networkDelay})
			p.onClient(func() { require.NoError(t, p.dialed.Send(make([]byte, 64), nil)) })
			p.For(time.Second) // The acknowledgement advertises receive buffers.
			r.got = nil
			p.serverProcess.Stop()
			var sent []time.Time
			for range messages {
				p.onClient(func() {
					sent = append(sent, time.Now())
					require.NoError(t, p.dialed.Send(make([]byte, 64), nil))
				})
				p.For(apart)
			}
			p.For(stopped)
			p.serverProcess.Continue()
			p.Until(testTimeout, func() bool { return len(r.got) == messages })
			for i, m := range r.got {
				k.wantTime(t, m, sent[i])
				require.GreaterOrEqual(t, m.now.Sub(sent[i]), stopped)
				if !k.reportsArrival() {
					require.Equal(t, r.got[0].time, m.time)
				}
			}
		})
	})
}

// TestMessageTimeBeforeOpen checks the times of messages that a loop receives before it sees
// that their connection is open.
func TestMessageTimeBeforeOpen(t *testing.T) {
	eachPauseCase(t, func(t *testing.T, k pauseCase) {
		k.messageTime = true
		for _, k.immediatesOnly = range []bool{false, true} {
			r := newTimeRecorder()
			var stopServer func()
			var sent time.Time
			client := &hooks{open: func(c *reactor.Conn) {
				if stopServer != nil {
					stopServer()
					sent = time.Now()
					require.NoError(t, c.Send(nil, &reactor.OpOptions{HasImm: true}))
				}
			}}
			k.run(t, client, r, nil, func(t *testing.T, p *pausePair) {
				p.SetFaults(reactortest.Faults{Delay: networkDelay})
				stopServer = p.serverProcess.Stop
				require.NoError(t, p.client.Dial(p.serverHost.AddrPort(1), &reactor.DialOptions{ImmediatesOnly: k.immediatesOnly}))
				p.For(100 * time.Millisecond)
				require.Empty(t, r.got)
				p.serverProcess.Continue()
				p.Until(testTimeout, func() bool { return len(r.got) == 1 })
				k.wantTime(t, r.got[0], sent)
			})
		}
	})
}

// TestMessageTimeOfHeldMessage checks that a message that waits because of PauseRecv has the
// time at which it has arrived.
func TestMessageTimeOfHeldMessage(t *testing.T) {
	eachPauseCase(t, func(t *testing.T, k pauseCase) {
		k.messageTime = true
		r := newTimeRecorder()
		record := r.message
		r.message = func(c *reactor.Conn, m reactor.Message) {
			record(c, m)
			if len(r.got) == 1 {
				require.NoError(t, c.PauseRecv())
			}
		}
		k.run(t, &hooks{}, r, nil, func(t *testing.T, p *pausePair) {
			p.SetFaults(reactortest.Faults{Delay: networkDelay})
			var sent time.Time
			p.onClient(func() {
				sent = time.Now()
				for range 4 {
					require.NoError(t, p.dialed.Send(make([]byte, 64), nil))
				}
			})
			p.For(time.Second)
			held := 0
			p.onServer(func() {
				held = reactor.HeldMessages(p.accepted)
				require.Positive(t, held)
				p.accepted.ResumeRecv()
			})
			p.Until(testTimeout, func() bool { return len(r.got) == 4 })
			k.wantTime(t, r.got[0], sent)
			for _, m := range r.got[1 : 1+held] {
				require.Equal(t, r.got[0].time, m.time)
				require.Greater(t, m.now.Sub(m.time), 900*time.Millisecond)
			}
		})
	})
}

// TestMessageTimeIsOff checks that the other side, which has not set the option, gets no times,
// and neither does another connection of a loop that has connections with times.
func TestMessageTimeIsOff(t *testing.T) {
	eachPauseCase(t, func(t *testing.T, k pauseCase) {
		client, server := newTimeRecorder(), newTimeRecorder()
		var timed *reactor.Conn
		record := server.message
		server.message = func(c *reactor.Conn, m reactor.Message) {
			require.NoError(t, c.Send(m.Data(), nil))
			if c == timed {
				require.False(t, m.Time().IsZero())
				return
			}
			record(c, m)
		}
		k.run(t, client, server, nil, func(t *testing.T, p *pausePair) {
			_, err := p.server.Listen(p.serverHost.AddrPort(2), &reactor.ListenOptions{MessageTime: true})
			require.NoError(t, err)
			plain, plainClient := p.accepted, p.dialed
			require.NoError(t, p.client.Dial(p.serverHost.AddrPort(2), nil))
			p.Until(testTimeout, func() bool { return p.accepted != plain && p.dialed != plainClient })
			timed = p.accepted
			for range 10 {
				p.onClient(func() {
					require.NoError(t, p.dialed.Send(make([]byte, 64), nil))
					require.NoError(t, plainClient.Send(make([]byte, 64), nil))
				})
				p.For(time.Millisecond)
			}
			require.Len(t, client.got, 20)
			require.Len(t, server.got, 10)
			for _, m := range append(client.got, server.got...) {
				require.Equal(t, time.Time{}, m.time)
			}
		})
	})
}

// TestLongMessageTime checks that long messages and parts of them have the time of the turn
// that passes them on.
func TestLongMessageTime(t *testing.T) {
	eachPauseCase(t, func(t *testing.T, k pauseCase) {
		k.messageTime = true
		r := newTimeRecorder()
		parts := false
		r.long = func(_ *reactor.Conn, m *reactor.LongMessage) {
			if parts {
				m.Parts()
			}
		}
		cfg := &reactor.Config{MaxLongMessage: 1 << 20}
		k.run(t, &hooks{}, r, cfg, func(t *testing.T, p *pausePair) {
			p.SetFaults(reactortest.Faults{Delay: networkDelay})
			for _, parts = range []bool{false, true} {
				bytes, want := 0, len(r.got)
				var sent time.Time
				p.onClient(func() {
					sent = time.Now()
					require.NoError(t, p.dialed.Send(make([]byte, 1<<20), nil))
				})
				p.Until(testTimeout, func() bool {
					for ; want < len(r.got); want++ {
						m := r.got[want]
						require.Equal(t, m.now.UnixNano(), m.time.UnixNano())
						if k.wire {
							require.Greater(t, m.time.Sub(sent), 2*networkDelay)
						}
						bytes += m.size
					}
					return bytes == 1<<20
				})
			}
			require.Greater(t, len(r.got), 2)
		})
	})
}

// TestMessageTimeRepeats checks that a run with the same seed has the same times.
func TestMessageTimeRepeats(t *testing.T) {
	run := func() []timedMessage {
		r := newTimeRecorder()
		k := pauseCase{wire: true, messageTime: true, seed: 7}
		k.run(t, &hooks{}, r, nil, func(t *testing.T, p *pausePair) {
			p.SetFaults(reactortest.Faults{Delay: networkDelay, Reorder: 0.5, Jitter: 10 * time.Millisecond, Loss: 0.1})
			p.onClient(func() {
				for range 16 {
					require.NoError(t, p.dialed.Send(make([]byte, 64), nil))
				}
			})
			p.Until(testTimeout, func() bool { return len(r.got) == 16 })
		})
		return r.got
	}
	require.Equal(t, run(), run())
}
