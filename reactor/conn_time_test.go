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
	require.Equal(t, reactor.ErrDeadline, p.dialEnd)
}

func TestIdleTimeout(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	begin := time.Now()
	p.dialed.SetIdleTimeout(time.Hour)
	p.dialed.SetIdleTimeout(2 * time.Millisecond)
	p.closed(t)
	require.Equal(t, reactor.ErrIdle, p.dialEnd)
	require.GreaterOrEqual(t, time.Since(begin), 2*time.Millisecond)
}

// A peer that answers probes stays, for as long as it is silent.
func TestKeepalive(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, &reactor.Config{Keepalive: 200 * time.Millisecond})
	p.drive(t, func() bool { return probes(t, p.client) >= 2 })
	require.Zero(t, p.dialOver)
	require.Zero(t, p.accepted.Stats().Messages)
}

func probes(t *testing.T, l *reactor.Loop) uint64 { return l.Stats().Keepalives }

// A peer that does not is taken for dead.
func TestKeepaliveNotAnswered(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, &reactor.Config{Keepalive: time.Millisecond})
	drive(t, func() bool { return p.dialOver > 0 }, p.client) // the server makes no turn
	require.Equal(t, reactor.ErrKeepalive, p.dialEnd)
}

// late lets the loop do something after it was held up for d, and then notice
// the time at once, before it has looked at its queues again.
func runLate(t *testing.T, l *reactor.Loop, d time.Duration, fn func()) {
	done := false
	require.NoError(t, l.Post(func() {
		reactor.AdvanceClock(l, d)
		fn()
		l.After(0, func() { done = true }) // reads the clock
	}))
	drive(t, func() bool { return done }, l)
}

// A send at the end of a long silence is not silence, though the loop has not
// read its clock since the beginning of it.
func TestIdleTimeoutSeesALateSend(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	p.dialed.SetIdleTimeout(time.Hour)
	runLate(t, p.client, 2*time.Hour, func() { require.NoError(t, p.dialed.Send(nil)) })
	p.drive(t, func() bool { return p.accepted.Stats().Messages == 1 })
	require.Zero(t, p.dialOver)
	runLate(t, p.client, 2*time.Hour, func() {})
	p.closed(t)
	require.ErrorIs(t, p.dialEnd, reactor.ErrIdle)
}

// Nor is what came while the loop was held up.
func TestIdleTimeoutSeesWhatCameMeanwhile(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	p.dialed.SetIdleTimeout(time.Hour)
	runLate(t, p.client, 2*time.Hour, func() {
		require.NoError(t, p.accepted.Send(nil))
		p.accepted.Flush()
	})
	require.Zero(t, p.dialOver)
	require.Equal(t, reactor.StateOpen, p.dialed.State())
	require.EqualValues(t, 1, p.dialed.Stats().Messages)
}

// A probe that was answered while the loop was held up is answered.
func TestKeepaliveAnsweredMeanwhile(t *testing.T) {
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
	runLate(t, p.client, 2*time.Hour, func() {}) // nobody answers this one
	runLate(t, p.client, 2*time.Hour, func() {})
	drive(t, func() bool { return p.dialOver > 0 }, p.client)
	require.Equal(t, reactor.ErrKeepalive, p.dialEnd)
}
