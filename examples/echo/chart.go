package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	chartRows  = 10 // number of rows for times up to the 99.9th percentile
	chartWidth = 40 // length of the longest bar in characters
)

// chart draws a histogram of the times as text. Its last row is for the times above the
// 99.9th percentile.
func chart(times *hdrhistogram.Histogram) string {
	if times.TotalCount() == 0 {
		return ""
	}
	low, high := float64(max(times.Min(), 1)), float64(times.ValueAtPercentile(99.9)+1)
	factor := math.Pow(high/low, 1.0/chartRows)
	var counts [chartRows + 1]int64
	for _, bar := range times.Distribution() {
		if bar.Count > 0 {
			counts[rowOf(float64(bar.From), low, factor)] += bar.Count
		}
	}
	most := int64(1)
	for _, n := range counts {
		most = max(most, n)
	}
	var b strings.Builder
	for i, n := range counts {
		bound := low * math.Pow(factor, float64(i))
		share := float64(n) / float64(times.TotalCount())
		marks := strings.Repeat("#", int((n*chartWidth+most-1)/most))
		fmt.Fprintf(&b, "  from %7s µs %7.3f%% %s\n", micros(int64(bound)), 100*share, marks)
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
