package latency

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPercentiles(t *testing.T) {
	h := New()
	require.Equal(t, Percentiles{}, h.Percentiles(), "nothing was timed")
	for i := range 1000 {
		h.Record(time.Duration(i+1) * time.Microsecond)
	}
	p := h.Percentiles()
	const precision = 1e-3 // Largest relative error of a value of the histogram.
	require.InEpsilon(t, 500e3, p.P50, precision)
	require.InEpsilon(t, 900e3, p.P90, precision)
	require.InEpsilon(t, 990e3, p.P99, precision)
	require.InEpsilon(t, 999e3, p.P999, precision)
	require.InEpsilon(t, 1000e3, p.Max, precision)
	require.Contains(t, p.String(), "  p99.9              999.")
}

// TestCoordinatedOmission checks that a late answer also adds the times of delayed
// messages.
func TestCoordinatedOmission(t *testing.T) {
	h := New()
	h.RecordPaced(35*time.Millisecond, 10*time.Millisecond)
	require.EqualValues(t, 3, h.TotalCount())
	require.InEpsilon(t, 15e6, float64(h.Min()), 1e-3)
	h.RecordPaced(time.Millisecond, 10*time.Millisecond)
	require.EqualValues(t, 4, h.TotalCount())
}

func TestTimesOutOfRange(t *testing.T) {
	h := New()
	h.Record(0)
	h.Record(-time.Second)
	h.Record(time.Hour)
	h.RecordPaced(time.Hour, time.Hour)
	require.EqualValues(t, 4, h.TotalCount())
}

func TestChart(t *testing.T) {
	h := New()
	require.Empty(t, h.Chart(), "no results")
	require.NoError(t, h.RecordValues(1000, 5))
	require.Contains(t, h.Chart(), "100.000%")
	require.NoError(t, h.RecordValues(4000, 2000))
	require.NoError(t, h.RecordValues(900_000, 1))
	lines := h.Chart()
	require.Contains(t, lines, "from    1.00 µs   0.249%")
	require.Contains(t, lines, " 0.050% #\n", "times above the 99.9th percentile have a row")
}
