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
		c.Times.Record(time.Duration(i+1) * time.Microsecond)
	}
	r := c.result()
	const precision = 1e-3 // Largest relative error of a value of the histogram.
	require.InEpsilon(t, 500e3, r.P50, precision)
	require.InEpsilon(t, 990e3, r.P99, precision)
	require.InEpsilon(t, 999e3, r.P999, precision)
	require.InEpsilon(t, 1000e3, r.Max, precision)
}
