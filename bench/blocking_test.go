package main

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A fakeCaller stores the number of the last message. It fails for the message with the
// number failAt.
type fakeCaller struct {
	last   atomic.Uint64
	failAt uint64
}

func (f *fakeCaller) roundTrip(n uint64) error {
	if n == f.failAt {
		return errors.New("why")
	}
	f.last.Store(n)
	return nil
}

func blocking(t *testing.T, c Case, failAt uint64) (b *blockingClient, made *[]*fakeCaller, closed *int) {
	made, closed = new([]*fakeCaller), new(int)
	b = newBlockingClient(&spec{Case: c})
	b.connect = func() (caller, error) {
		f := &fakeCaller{failAt: failAt}
		*made = append(*made, f)
		return f, nil
	}
	b.closeConn = func(caller) error { *closed++; return nil }
	require.NoError(t, b.open())
	return b, made, closed
}

// TestBlockingPingPong checks that each phase of duration 0 sends one message.
func TestBlockingPingPong(t *testing.T) {
	b, made, closed := blocking(t, Case{Workload: workPingPong, Connections: 1}, 0)
	for phase := range uint64(3) {
		counted := newTally()
		require.NoError(t, b.drive(0, counted))
		require.EqualValues(t, 1, counted.Msgs)
		require.EqualValues(t, 1, counted.Times.TotalCount())
		require.Equal(t, phase+1, (*made)[0].last.Load())
	}
	require.NoError(t, b.Close())
	require.Equal(t, 1, *closed)
}

func TestBlockingConnections(t *testing.T) {
	b, made, _ := blocking(t, Case{Workload: workConnsActive, Connections: 5}, 0)
	require.NoError(t, b.drive(0, newTally()))
	for _, f := range *made {
		require.EqualValues(t, 1, f.last.Load())
	}
}

func TestBlockingConnect(t *testing.T) {
	b, made, closed := blocking(t, Case{Workload: workConnect, Connections: 1}, 0)
	require.Empty(t, *made)
	counted := newTally()
	require.NoError(t, b.drive(0, counted))
	require.Len(t, *made, 1)
	require.Equal(t, 1, *closed)
	require.EqualValues(t, 1, counted.Msgs)
}

func TestBlockingFailures(t *testing.T) {
	for _, workload := range []string{workPingPong, workConnsActive, workConnect, workIdle} {
		b, _, _ := blocking(t, Case{Workload: workload, Connections: 2}, 1)
		require.EqualError(t, b.drive(0, newTally()), "why", workload)
	}
}
