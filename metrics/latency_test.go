package metrics_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// TestLatencies checks that the histograms have what the loops have measured, and only on
// engines with Config.LatencyEvery.
func TestLatencies(t *testing.T) {
	names := []string{"turn_duration_seconds", "callback_duration_seconds", "arrival_delay_seconds", "oversleep_seconds"}
	e := startMeasuring(t, softDevices(t), 2, 1)
	c := newCollector(t, e)
	got, _ := gather(t, c)
	for _, name := range names { // They exist before anything was measured.
		require.Contains(t, got, fmt.Sprintf("rdmaloop_loop_%s{loop=\"1\"}", name))
	}
	exchange(t, e, 1000)
	require.NoError(t, e.Shutdown(t.Context()))

	got, _ = gather(t, c)
	for i := range 2 {
		now := e.Loop(i).Latency()
		require.Positive(t, now.Arrival.Count())
		for k, want := range []reactor.Histogram{now.Turn, now.Callback, now.Arrival, now.Oversleep} {
			m := got[fmt.Sprintf("rdmaloop_loop_%s{loop=\"%d\"}", names[k], i)]
			requireDurations(t, m.GetHistogram(), want)
		}
	}

	got, _ = gather(t, newCollector(t, start(t, softDevices(t), 1)))
	for _, name := range names {
		require.NotContains(t, got, fmt.Sprintf("rdmaloop_loop_%s{loop=\"0\"}", name))
	}
}

// requireDurations checks that each bucket has the durations that are below its bound.
func requireDurations(t *testing.T, got *dto.Histogram, want reactor.Histogram) {
	require.Equal(t, want.Count(), got.GetSampleCount())
	require.InDelta(t, want.Sum().Seconds(), got.GetSampleSum(), 1e-9)
	require.Len(t, got.Bucket, 24)
	require.InDelta(t, 128e-9, got.Bucket[0].GetUpperBound(), 1e-15)
	require.InDelta(t, 1.073741824, got.Bucket[23].GetUpperBound(), 1e-12)
	for _, b := range got.Bucket {
		bound := time.Duration(math.Round(b.GetUpperBound() * 1e9))
		below := uint64(0)
		for end, n := range want.Buckets() {
			if end <= bound {
				below += n
			}
		}
		require.Equal(t, below, b.GetCumulativeCount(), bound)
	}
}
