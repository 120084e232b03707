package main

import (
	"cmp"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// maxTime is the largest time in nanoseconds that a histogram can record.
const maxTime = int64(time.Minute)

// A tally counts the messages of a client and records their times. One goroutine uses
// it.
type tally struct {
	// Times of single messages in nanoseconds, or empty.
	Times   *hdrhistogram.Histogram
	Msgs    uint64
	Elapsed time.Duration
}

func newTally() *tally { return &tally{Times: hdrhistogram.New(1, maxTime, 3)} }

// record adds the time of one message to the histogram. A time out of range is replaced
// by the nearest one in range, so RecordValue cannot fail.
func (t *tally) record(took time.Duration) {
	_ = t.Times.RecordValue(min(max(int64(took), 1), maxTime))
}

// recordPaced adds the time of one message of a workload that sends at fixed intervals.
// To correct coordinated omission, it also adds the times of messages that a late answer
// has delayed.
func (t *tally) recordPaced(took, interval time.Duration) {
	_ = t.Times.RecordCorrectedValue(min(max(int64(took), 1), maxTime), int64(interval))
}

// A result is the summary of a tally for the parent process.
type result struct {
	P50, P99, P999, Max float64 // Percentiles and maximum of the times in nanoseconds.
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

// plus returns the result of two clients that have run at the same time: the sum of the
// messages, and the larger one of the other figures. Either may be nil.
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
