package main

import (
	"cmp"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// maxTime is the largest time in nanoseconds that a histogram can record.
const maxTime = int64(time.Minute)

// A tally counts messages and records their times. Only one goroutine uses it.
type tally struct {
	// Times of messages in nanoseconds. The histogram is empty if messages are not timed.
	Times   *hdrhistogram.Histogram
	Msgs    uint64
	Elapsed time.Duration
}

func newTally() *tally { return &tally{Times: hdrhistogram.New(1, maxTime, 3)} }

// record adds the time of one message. A time out of range is changed to the nearest
// limit.
func (t *tally) record(took time.Duration) {
	_ = t.Times.RecordValue(min(max(int64(took), 1), maxTime))
}

// recordPaced adds the time of one message that belongs to a series with a fixed
// interval. A late answer also delays the following messages, so recordPaced adds their
// times too. Without that, the percentiles would be too low (coordinated omission).
func (t *tally) recordPaced(took, interval time.Duration) {
	_ = t.Times.RecordCorrectedValue(min(max(int64(took), 1), maxTime), int64(interval))
}

// A result is the summary of a tally.
type result struct {
	P50, P99, P999, Max float64 // percentiles and largest value of the times, in nanoseconds
	Msgs                uint64
	Elapsed             time.Duration
}

func (t *tally) result() *result {
	r := &result{Msgs: t.Msgs, Elapsed: t.Elapsed}
	if t.Times.TotalCount() > 0 {
		r.P50 = float64(t.Times.ValueAtPercentile(50))
		r.P99 = float64(t.Times.ValueAtPercentile(99))
		r.P999 = float64(t.Times.ValueAtPercentile(99.9))
		r.Max = float64(t.Times.Max())
	}
	return r
}

// plus returns the result of two clients together. The messages are added. Of the other
// figures, the larger one is taken. Either result may be nil.
func (r *result) plus(other *result) *result {
	if r == nil || other == nil {
		return cmp.Or(r, other)
	}
	return &result{
		P50: max(r.P50, other.P50), P99: max(r.P99, other.P99), P999: max(r.P999, other.P999), Max: max(r.Max, other.Max),
		Msgs: r.Msgs + other.Msgs, Elapsed: max(r.Elapsed, other.Elapsed),
	}
}

// A stopwatch measures the time since it was created. It reads only the monotonic clock,
// because time.Now takes twice as long.
type stopwatch struct{ origin time.Time }

func newStopwatch() stopwatch { return stopwatch{time.Now()} }

func (w stopwatch) now() time.Duration { return time.Since(w.origin) }
