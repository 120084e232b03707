// Package latency has what a program that measures needs beside its server and its
// client: a histogram of times, a report that can be printed, a progress bar, the
// counters of the devices, and the choice of processors and addresses. The example echo
// uses all of it, and bench the parts that both need.
package latency

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Histogram counts times from 1 ns to one minute, with a relative error of at most
// 0.1 %. A Histogram has about 200 KB. Only one goroutine may use it.
type Histogram struct {
	*hdrhistogram.Histogram // of nanoseconds
}

// New returns an empty Histogram.
func New() Histogram { return Histogram{hdrhistogram.New(1, int64(time.Minute), 3)} }

// Record adds one time. A time out of range is changed to the nearest limit.
func (h Histogram) Record(took time.Duration) {
	_ = h.RecordValue(min(max(int64(took), 1), h.HighestTrackableValue()))
}

// RecordPaced adds the time of one message that belongs to a series with a fixed
// interval. A late answer also delays the following messages, so RecordPaced adds their
// times too. Without that, the percentiles would be too low (coordinated omission).
func (h Histogram) RecordPaced(took, interval time.Duration) {
	_ = h.RecordCorrectedValue(min(max(int64(took), 1), h.HighestTrackableValue()), int64(interval))
}

// Percentiles has percentiles of recorded times and the longest one, in nanoseconds.
type Percentiles struct {
	P50  int64 `json:"p50_ns"`
	P90  int64 `json:"p90_ns"`
	P99  int64 `json:"p99_ns"`
	P999 int64 `json:"p999_ns"`
	Max  int64 `json:"max_ns"`
}

// Percentiles returns the percentiles of the times. They are 0 if there are no times.
func (h Histogram) Percentiles() Percentiles {
	at := h.ValueAtPercentile
	return Percentiles{P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: h.Max()}
}

// String returns the percentiles as text, one in a line.
func (p Percentiles) String() string {
	var b strings.Builder
	row := func(name string, ns int64) { fmt.Fprintf(&b, "  %-12s %12s µs\n", name, micros(ns)) }
	row("p50", p.P50)
	row("p90", p.P90)
	row("p99", p.P99)
	row("p99.9", p.P999)
	row("max", p.Max)
	return b.String()
}

func micros(ns int64) string { return fmt.Sprintf("%.2f", float64(ns)/1e3) }

const (
	chartRows  = 10 // number of rows for times up to the 99.9th percentile
	chartWidth = 40 // length of the longest bar in characters
)

// Chart draws the histogram as text, with a logarithmic scale of times. The last row is
// for the times above the 99.9th percentile. If there are no times, the chart is empty.
func (h Histogram) Chart() string {
	if h.TotalCount() == 0 {
		return ""
	}
	low, high := float64(max(h.Min(), 1)), float64(h.ValueAtPercentile(99.9)+1)
	factor := math.Pow(high/low, 1.0/chartRows)
	var counts [chartRows + 1]int64
	most := int64(1)
	for _, bar := range h.Distribution() {
		if bar.Count > 0 {
			row := rowOf(float64(bar.From), low, factor)
			counts[row] += bar.Count
			most = max(most, counts[row])
		}
	}
	var b strings.Builder
	for i, n := range counts {
		from := low * math.Pow(factor, float64(i))
		share := 100 * float64(n) / float64(h.TotalCount())
		marks := strings.Repeat("#", int((n*chartWidth+most-1)/most))
		fmt.Fprintf(&b, "  from %7s µs %7.3f%% %s\n", micros(int64(from)), share, marks)
	}
	return b.String()
}

func rowOf(ns, low, factor float64) int {
	if factor <= 1 {
		return 0 // The scale has one row, because all times are equal.
	}
	row := math.Log(max(ns, low)/low) / math.Log(factor)
	return min(int(row+1e-9), chartRows)
}
