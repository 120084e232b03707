package metrics

import (
	"math/bits"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

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

// durations is a reactor.Histogram in one scrape. It implements prometheus.Metric.
type durations struct {
	*series
	counts [numBounds]uint64 // durations below each bound, and not below the one before
	count  uint64
	sum    time.Duration
}

func newDurations(s *series, h *reactor.Histogram) *durations {
	d := &durations{series: s, sum: h.Sum()}
	for end, n := range h.Buckets() {
		d.count += n
		if i := max(0, bits.Len64(uint64(end-1))-shortestBound); i < numBounds {
			d.counts[i] += n
		}
	}
	return d
}

// Desc implements prometheus.Metric.
func (d *durations) Desc() *prometheus.Desc { return d.desc }

// Write implements prometheus.Metric.
func (d *durations) Write(to *dto.Metric) error {
	buckets, upTo := make([]dto.Bucket, numBounds), d.counts
	sum := d.sum.Seconds()
	out := &dto.Histogram{SampleSum: &sum, SampleCount: &d.count}
	for i := range buckets {
		if i > 0 {
			upTo[i] += upTo[i-1]
		}
		buckets[i].UpperBound, buckets[i].CumulativeCount = &latencyBounds[i], &upTo[i]
		out.Bucket = append(out.Bucket, &buckets[i])
	}
	to.Label, to.Histogram = d.labels[:len(d.labels):len(d.labels)], out
	return nil
}
