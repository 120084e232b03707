package main

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// maxTime is the largest time that a histogram can hold.
const maxTime = int64(time.Minute)

// A tally has the counts and times of a client. It belongs to one goroutine.
type tally struct {
	Times   *hdrhistogram.Histogram // Times of single messages, if they are timed.
	Msgs    uint64
	Elapsed time.Duration
}

func newTally() *tally { return &tally{Times: hdrhistogram.New(1, maxTime, 3)} }

// record adds the time of one message. Times out of range are changed to the nearest in
// range, so RecordValue cannot fail.
func (t *tally) record(took time.Duration) {
	_ = t.Times.RecordValue(min(max(int64(took), 1), maxTime))
}

// recordPaced adds the time of one message that was due at a fixed time. If it took
// longer than the interval, the messages that would have waited behind it are added,
// too. Without this correction a stall would count as one message (coordinated
// omission).
func (t *tally) recordPaced(took, interval time.Duration) {
	_ = t.Times.RecordCorrectedValue(min(max(int64(took), 1), maxTime), int64(interval))
}

// A result is a tally as the client process reports it.
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

// A stopwatch measures the time since it was made. It reads the monotonic clock only,
// which takes half of the time of time.Now.
type stopwatch struct{ origin time.Time }

func newStopwatch() stopwatch { return stopwatch{time.Now()} }

func (w stopwatch) now() time.Duration { return time.Since(w.origin) }
