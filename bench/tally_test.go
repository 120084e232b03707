package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestResult(t *testing.T) {
	c := newTally()
	require.Equal(t, &result{}, c.result(), "nothing was timed")
	for i := range 1000 {
		c.record(time.Duration(i+1) * time.Microsecond)
	}
	r := c.result()
	const precision = 1e-3 // Largest relative error of a value of the histogram.
	require.InEpsilon(t, 500e3, r.P50, precision)
	require.InEpsilon(t, 990e3, r.P99, precision)
	require.InEpsilon(t, 999e3, r.P999, precision)
	require.InEpsilon(t, 1000e3, r.Max, precision)
}

// TestCoordinatedOmission checks that a late answer also adds the times of delayed
// messages.
func TestCoordinatedOmission(t *testing.T) {
	c := newTally()
	c.recordPaced(35*time.Millisecond, 10*time.Millisecond)
	require.EqualValues(t, 3, c.Times.TotalCount())
	require.InEpsilon(t, 15e6, float64(c.Times.Min()), 1e-3)
	c.recordPaced(time.Millisecond, 10*time.Millisecond)
	require.EqualValues(t, 4, c.Times.TotalCount())
}

func TestTimesOutOfRange(t *testing.T) {
	c := newTally()
	c.record(0)
	c.record(-time.Second)
	c.record(time.Hour)
	require.EqualValues(t, 3, c.Times.TotalCount())
}
