package reactor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
)

func TestDeadline(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	p.dialed.SetDeadline(time.Now().Add(time.Hour))
	p.dialed.SetDeadline(time.Time{})
	p.dialed.SetDeadline(time.Now().Add(-time.Second))
	p.closed(t)
	require.Equal(t, reactor.ErrDeadline, p.dialCloseErr)
}

func TestIdleTimeout(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	begin := time.Now()
	p.dialed.SetIdleTimeout(time.Hour)
	p.dialed.SetIdleTimeout(2 * time.Millisecond)
	p.closed(t)
	require.Equal(t, reactor.ErrIdle, p.dialCloseErr)
	require.GreaterOrEqual(t, time.Since(begin), 2*time.Millisecond)
}

// TestKeepalive checks that answered probes keep a connection open, even if the peer
// sends nothing.
func TestKeepalive(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, &reactor.Config{Keepalive: 200 * time.Millisecond})
	p.drive(t, func() bool { return probes(t, p.client) >= 2 })
	require.Zero(t, p.dialCloses)
	require.Zero(t, p.accepted.Stats().Messages)
}

func probes(t *testing.T, l *reactor.Loop) uint64 { return l.Stats().Keepalives }

// TestKeepaliveNotAnswered checks that an unanswered keepalive probe ends a connection.
func TestKeepaliveNotAnswered(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, &reactor.Config{Keepalive: time.Millisecond})
	// The server's loop does not run.
	drive(t, func() bool { return p.dialCloses > 0 }, p.client)
	require.Equal(t, reactor.ErrKeepalive, p.dialCloseErr)
}

// runLate advances the loop's clock by d, as a delay would, and calls fn before the loop
// polls.
func runLate(t *testing.T, l *reactor.Loop, d time.Duration, fn func()) {
	done := false
	require.NoError(t, l.Post(func() {
		reactor.AdvanceClock(l, d)
		fn()
		l.After(0, func() { done = true }) // After() reads the clock.
	}))
	drive(t, func() bool { return done }, l)
}

// TestIdleTimeoutCountsLateSend checks that a send after a long delay counts as
// activity, even before the loop reads its clock.
func TestIdleTimeoutCountsLateSend(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	p.dialed.SetIdleTimeout(time.Hour)
	runLate(t, p.client, 2*time.Hour, func() { require.NoError(t, p.dialed.Send(nil)) })
	p.drive(t, func() bool { return p.accepted.Stats().Messages == 1 })
	require.Zero(t, p.dialCloses)
	runLate(t, p.client, 2*time.Hour, func() {})
	p.closed(t)
	require.ErrorIs(t, p.dialCloseErr, reactor.ErrIdle)
}

// TestIdleTimeoutCountsDelayedMessage checks that a message that arrives during a delay
// counts as activity.
func TestIdleTimeoutCountsDelayedMessage(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	p.dialed.SetIdleTimeout(time.Hour)
	runLate(t, p.client, 2*time.Hour, func() {
		require.NoError(t, p.accepted.Send(nil))
		p.accepted.Flush()
	})
	require.Zero(t, p.dialCloses)
	require.Equal(t, reactor.StateOpen, p.dialed.State())
	require.EqualValues(t, 1, p.dialed.Stats().Messages)
}

// TestKeepaliveAnsweredDuringDelay checks that a probe may be answered while the loop is
// delayed.
func TestKeepaliveAnsweredDuringDelay(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, &reactor.Config{Keepalive: time.Hour})
	runLate(t, p.client, 2*time.Hour, func() {})
	require.EqualValues(t, 1, probes(t, p.client))
	runLate(t, p.client, 2*time.Hour, func() {
		for range 100 {
			_, err := p.server.RunOnce(0)
			require.NoError(t, err)
		}
	})
	require.Equal(t, reactor.StateOpen, p.dialed.State())
	runLate(t, p.client, 2*time.Hour, func() {}) // The client sends a probe, which the server does not answer.
	runLate(t, p.client, 2*time.Hour, func() {})
	drive(t, func() bool { return p.dialCloses > 0 }, p.client)
	require.Equal(t, reactor.ErrKeepalive, p.dialCloseErr)
}
