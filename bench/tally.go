package main

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longest is the longest time that a histogram tells apart.
const longest = int64(time.Minute)

// A tally is what a client counts. It belongs to one goroutine.
type tally struct {
	Times   *hdrhistogram.Histogram // of single messages, where they are timed
	Msgs    uint64
	Elapsed time.Duration
}

func newTally() *tally { return &tally{Times: hdrhistogram.New(1, longest, 3)} }

// record adds the time of one message. It can not fail: the value is in range.
func (t *tally) record(took time.Duration) {
	_ = t.Times.RecordValue(min(max(int64(took), 1), longest))
}

// recordPaced adds the time of one message that was due at a fixed time. One
// that took longer than the interval stands for those as well that would have
// waited behind it: without them a stall would count once.
func (t *tally) recordPaced(took, interval time.Duration) {
	_ = t.Times.RecordCorrectedValue(min(max(int64(took), 1), longest), int64(interval))
}

// A result is a tally as the client's process reports it.
type result struct {
	P50, P99, P999, Max float64 // ns
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

// A stopwatch tells the time since it was made. Reading it costs half of
// time.Now, which reads two clocks.
type stopwatch struct{ origin time.Time }

func newStopwatch() stopwatch { return stopwatch{time.Now()} }

func (w stopwatch) now() time.Duration { return time.Since(w.origin) }
