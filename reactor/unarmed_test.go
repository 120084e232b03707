//go:build linux

package reactor_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
)

// TestUnarmed checks which applications with a loop of their own are told that they sleep
// without having armed it. The peer sends a message every 30 ms.
func TestUnarmed(t *testing.T) {
	type round = func(t *testing.T, w *reactortest.World, l *reactor.Loop)
	const long, short = 20 * time.Millisecond, time.Millisecond
	runAll := func(t *testing.T, l *reactor.Loop) {
		for n := 1; n > 0; {
			var err error
			n, err = l.RunOnce(0)
			require.NoError(t, err)
		}
	}
	poll := func(t *testing.T, l *reactor.Loop) (busy bool) {
		busy, err := l.Poll(1)
		require.NoError(t, err)
		return busy
	}
	sleepAfterRunOnce := func(d time.Duration) round {
		return func(t *testing.T, w *reactortest.World, l *reactor.Loop) { runAll(t, l); w.For(d) }
	}
	for name, test := range map[string]struct {
		round
		slow  time.Duration // duration of OnMessage
		found bool
	}{
		"RunOnce, then sleep": {sleepAfterRunOnce(long), 0, true},
		"Poll, which says busy, then sleep": {func(t *testing.T, w *reactortest.World, l *reactor.Loop) {
			l.SetTurnFunc(func() bool { return false }) // The loop is always busy.
			require.True(t, poll(t, l))
			w.For(long)
		}, 0, true},
		"Poll until the loop is armed": {func(t *testing.T, w *reactortest.World, l *reactor.Loop) {
			for poll(t, l) {
				w.For(10 * time.Microsecond)
			}
			w.For(long)
		}, 0, false},
		"RunOnce waits": {func(t *testing.T, w *reactortest.World, l *reactor.Loop) {
			_, err := l.RunOnce(long)
			require.NoError(t, err)
			w.For(long)
		}, 0, false},
		"short sleeps":   {sleepAfterRunOnce(short), 0, false},
		"long callbacks": {sleepAfterRunOnce(short), long, false},
	} {
		t.Run(name, func(t *testing.T) {
			reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
				var logged bytes.Buffer
				got := 0
				h := w.Host("host")
				l := h.Process("server").NewLoop(&hooks{message: func(*reactor.Conn, reactor.Message) {
					got++
					w.For(test.slow)
				}}, &reactor.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
				_, err := l.Engine().Listen(h.AddrPort(1), nil)
				require.NoError(t, err)
				client := h.Process("client").Start(&hooks{open: func(c *reactor.Conn) { sendEvery(t, c, 30*time.Millisecond) }}, nil)
				require.NoError(t, client.Dial(h.AddrPort(1), nil))
				for got < 50 {
					test.round(t, w, l)
				}
				poll(t, l) // publishes the counters
				if test.found {
					require.Greater(t, l.Stats().Unarmed, uint64(10))
					require.Equal(t, 1, strings.Count(logged.String(), "sleep only after Poll has returned false"))
				} else {
					require.Zero(t, l.Stats().Unarmed)
					require.Empty(t, logged.String())
				}
			})
		})
	}
}

// sendEvery sends a message on c after each interval.
func sendEvery(t *testing.T, c *reactor.Conn, interval time.Duration) {
	if errors.Is(c.Send([]byte("message")), reactor.ErrClosed) {
		return
	}
	c.Loop().After(interval, func() { sendEvery(t, c, interval) })
}
