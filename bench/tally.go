package main

import (
	"cmp"
	"time"

	"github.com/rdmaloop/rdmaloop/examples/latency"
)

// A tally counts messages and records their times. Only one goroutine uses it.
type tally struct {
	// Times of messages. The histogram is empty if messages are not timed.
	Times   latency.Histogram
	Msgs    uint64
	Elapsed time.Duration
}

func newTally() *tally { return &tally{Times: latency.New()} }

// A result is the summary of a tally.
type result struct {
	P50, P99, P999, Max float64 // percentiles and largest value of the times, in nanoseconds
	Msgs                uint64
	Elapsed             time.Duration
}

func (t *tally) result() *result {
	p := t.Times.Percentiles()
	return &result{float64(p.P50), float64(p.P99), float64(p.P999), float64(p.Max), t.Msgs, t.Elapsed}
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
