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
