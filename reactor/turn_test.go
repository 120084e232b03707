package reactor_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestTurnFunc checks that a loop calls its turn function once per turn and never
// sleeps, despite IdleEvent.
func TestTurnFunc(t *testing.T) {
	l := newLoop(t, &hooks{}, &reactor.Config{Idle: reactor.IdleEvent, Limits: reactor.Limits{SafetyTimeout: testTimeout}})
	calls := 0
	l.SetTurnFunc(func() bool { calls++; return calls == 100 })
	before := reactor.Turn(l)
	work, err := l.RunOnce(-1)
	require.NoError(t, err)
	require.Equal(t, 1, work)
	require.Equal(t, 100, calls)
	require.EqualValues(t, 100, reactor.Turn(l)-before)

	busy, err := l.Poll(10)
	require.NoError(t, err)
	require.True(t, busy)
	require.Equal(t, 110, calls)
	l.SetTurnFunc(nil)
	busy, err = l.Poll(10)
	require.NoError(t, err)
	require.False(t, busy)
	require.Equal(t, 110, calls)
}

// TestTurnFuncRemovesItself checks that a turn function can remove itself.
func TestTurnFuncRemovesItself(t *testing.T) {
	l := newLoop(t, &hooks{}, nil)
	calls := 0
	l.SetTurnFunc(func() bool { calls++; l.SetTurnFunc(nil); return true })
	for range 3 {
		_, err := l.RunOnce(0)
		require.NoError(t, err)
	}
	require.Equal(t, 1, calls)
}

// TestTurnFuncWatchesMemory checks that a turn function sees a peer's WRITE and answers
// in the same turn.
func TestTurnFuncWatchesMemory(t *testing.T) {
	answered := false
	p := connect(t, &hooks{message: func(*reactor.Conn, reactor.Message) { answered = true }}, &hooks{}, nil)
	watched := alloc(t, p.accepted, 8, verbs.AccessAll)
	local := alloc(t, p.dialed, 8, verbs.AccessLocalWrite)
	// No atomic operations are needed: the soft device executes WRITEs on the loop's
	// goroutine.
	word := watched.Bytes()
	p.server.SetTurnFunc(func() bool {
		if word[7] == 0 {
			return false
		}
		word[7] = 0
		require.NoError(t, p.accepted.Send(nil, nil))
		require.NotZero(t, p.accepted.Stats().InFlight)
		return true
	})
	local.Bytes()[7] = 1
	require.NoError(t, p.dialed.Write(remoteOf(t, p.accepted, watched), nil, reactor.Piece{Region: local, Length: 8}))
	p.drive(t, func() bool { return answered })
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = p.server.RunOnce(0) }))
}

// TestTurnFuncOfEngine checks that an engine's loop with a turn function does not sleep,
// and still shuts down.
func TestTurnFuncOfEngine(t *testing.T) {
	e := start(t, &hooks{}, &reactor.Config{Idle: reactor.IdleEvent, Limits: reactor.Limits{SafetyTimeout: testTimeout}})
	calls, done := 0, make(chan struct{})
	require.NoError(t, e.Loop(0).Post(func() {
		e.Loop(0).SetTurnFunc(func() bool {
			if calls++; calls == 1000 {
				close(done)
			}
			return false
		})
	}))
	receive(t, done)
	require.NoError(t, e.Shutdown(context.Background()))
}

// TestSlowTurnFunc checks that Config.Limits.SlowCallback measures only calls of a turn
// function that had work.
func TestSlowTurnFunc(t *testing.T) {
	l := newLoop(t, &hooks{}, &reactor.Config{Logger: slog.New(slog.DiscardHandler), Limits: reactor.Limits{SlowCallback: time.Nanosecond}})
	calls := 0
	l.SetTurnFunc(func() bool { calls++; return calls == 3 })
	for range 5 {
		_, err := l.RunOnce(0)
		require.NoError(t, err)
	}
	require.Equal(t, 5, calls)
	require.NoError(t, l.Close())
	require.EqualValues(t, 1, l.Stats().SlowCallbacks)
}
