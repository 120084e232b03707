package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// A fakeRunner has two ping-pong cases and a stream.
type fakeRunner struct {
	name string
	run  func(Case) (Row, error)
}

func (f *fakeRunner) Name() string   { return f.name }
func (f *fakeRunner) Missing() error { return nil }

func (f *fakeRunner) Cases(options) []Case {
	return []Case{
		{Peer: f.name, Workload: workStream, Size: 64, InFlight: 32, Connections: 1},
		{Peer: f.name, Workload: workPingPong, Size: 4096, InFlight: 1, Connections: 1},
		{Peer: f.name, Workload: workPingPong, Size: 64, InFlight: 1, Connections: 1},
	}
}

func (f *fakeRunner) Run(_ context.Context, c Case) (Row, error) { return f.run(c) }

func ok(c Case) (Row, error) { return Row{Case: c, P50: 1}, nil }

func notFailed(t *testing.T) func(Case, error) {
	return func(_ Case, err error) { require.NoError(t, err) }
}

// TestInterleaved checks that a round measures every case once, with all peers one after
// another.
func TestInterleaved(t *testing.T) {
	p := newPlan([]runner{&fakeRunner{"a", ok}, &fakeRunner{"b", ok}}, options{rounds: 2})
	require.Equal(t, 12, p.steps())
	var order []string
	p.run(context.Background(), func(c Case) { order = append(order, c.Peer+" "+c.Workload) }, notFailed(t))
	round := []string{"a pingpong", "b pingpong", "a pingpong", "b pingpong", "a stream", "b stream"}
	require.Equal(t, append(round, round...), order)
	rows := p.rows()
	require.Len(t, rows, 6)
	require.Equal(t, 64, rows[0].Size)
	require.Equal(t, 4096, rows[2].Size)
}

// TestInterrupted checks that an interrupted measurement gives no row.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	p := newPlan([]runner{&fakeRunner{"a", func(c Case) (Row, error) {
		if n++; n == 2 {
			cancel()
			return Row{}, ctx.Err()
		}
		return ok(c)
	}}}, options{rounds: 3})
	p.run(ctx, func(Case) {}, notFailed(t))
	require.Equal(t, 2, n)
	require.Len(t, p.rows(), 1)
}

// TestFailedCase checks that a failed case does not end the run.
func TestFailedCase(t *testing.T) {
	p := newPlan([]runner{&fakeRunner{"a", func(c Case) (Row, error) {
		if c.Size == 4096 {
			return Row{}, errors.New("why")
		}
		return ok(c)
	}}}, options{rounds: 1})
	var failures []Case
	p.run(context.Background(), func(Case) {}, func(c Case, err error) {
		require.EqualError(t, err, "why")
		failures = append(failures, c)
	})
	require.Len(t, failures, 1)
	require.Len(t, p.rows(), 2)
}

func TestMedian(t *testing.T) {
	require.EqualValues(t, 2, median([]Row{{P50: 3}, {P50: 1}, {P50: 2}}).P50)
	require.EqualValues(t, 1, median([]Row{{P50: 3}, {P50: 1}}).P50)
	require.EqualValues(t, 5, median([]Row{{MsgsPerSec: 4}, {MsgsPerSec: 9}, {MsgsPerSec: 5}}).MsgsPerSec)
	require.EqualValues(t, 9, median([]Row{{MsgsPerSec: 4}, {MsgsPerSec: 9}}).MsgsPerSec)
}
