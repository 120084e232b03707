package metrics

import (
	"math/bits"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// latencies are the histograms of reactor.Latency.
var latencies = []struct {
	metric, help string
	of           func(*reactor.Latency) *reactor.Histogram
}{
	{"turn_duration_seconds", "lengths of turns that had work",
		func(l *reactor.Latency) *reactor.Histogram { return &l.Turn }},
	{"callback_duration_seconds", "durations of callbacks and other functions of the application",
		func(l *reactor.Latency) *reactor.Histogram { return &l.Callback }},
	{"arrival_delay_seconds", "times from the arrival of a message to its OnMessage: see reactor.Latency.Arrival",
		func(l *reactor.Latency) *reactor.Histogram { return &l.Arrival }},
	{"oversleep_seconds", "how late the loop woke up from sleeps that lasted until their end",
		func(l *reactor.Latency) *reactor.Histogram { return &l.Oversleep }},
}

// A reactor.Histogram has 16 buckets for each power of two, which are too many series for
// Prometheus. The upper bounds here are the powers of two from 128 ns to 2^30 ns, about a second.
// They are ends of buckets of reactor.Histogram, so only a duration that is exactly a bound is
// counted in the bucket above it.
const (
	shortestBound = 7 // logarithm of the first bound in nanoseconds
	numBounds     = 30 - shortestBound + 1
)

// latencyBounds are the upper bounds in seconds.
var latencyBounds = func() (bounds [numBounds]float64) {
	for i := range bounds {
		bounds[i] = (time.Duration(1) << (shortestBound + i)).Seconds()
	}
	return bounds
}()

// addLatencies adds the histograms of reactor.Latency to a loop.
func (c *collector) addLatencies(l *loop) {
	for _, m := range latencies {
		l.latencies = append(l.latencies, c.newSeries("rdmaloop_loop_"+m.metric, m.help, 1, false, l.batches.labels...))
	}
}

// collectLatencies sends what the loop has measured, if it measures.
func (l *loop) collectLatencies(ch chan<- prometheus.Metric) {
	if l.latencies == nil {
		return
	}
	now := l.Latency()
	for i, m := range latencies {
		ch <- newDurations(l.latencies[i], m.of(&now))
	}
}

// newDurations puts the buckets of a reactor.Histogram into those of the metric.
func newDurations(s *series, h *reactor.Histogram) *histogram {
	counts := make([]uint64, numBounds+1)
	for end, n := range h.Buckets() {
		counts[min(max(0, bits.Len64(uint64(end-1))-shortestBound), numBounds)] += n
	}
	return &histogram{s, latencyBounds[:], counts, h.Sum().Seconds()}
}
