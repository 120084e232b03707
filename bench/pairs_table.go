package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

const pairNotes = `
A ratio is the figure of the first program divided by that of the second. It is the
median of rounds in which both were measured one right after the other. The interval
contains the median of all such rounds with a probability of 95 %. Line ns is the range
of round trips of a cache line, before and after each measurement.
`

// printPairs writes the table of the goals that README.md of this directory shows.
func printPairs(w io.Writer, rows []PairRow) error {
	grid := [][]string{{"goal", "ratio", "interval", "limit", "verdict", "line ns"}}
	for _, r := range rows {
		limit := "<= "
		if r.MoreIsBetter {
			limit = ">= "
		}
		interval := fmt.Sprintf("%s to %s", formatRatio(r.Lo), formatRatio(r.Hi))
		if r.Confidence == 0 {
			interval = "too few rounds"
		}
		grid = append(grid, []string{
			r.Name, formatRatio(r.Median), interval, limit + formatRatio(r.Limit), r.Verdict,
			fmt.Sprintf("%.0f to %.0f", r.CacheLineLow, r.CacheLineHigh),
		})
	}
	var b strings.Builder
	if len(rows) == 0 {
		b.WriteString("nothing was measured\n")
	} else {
		markdown(&b, grid)
		b.WriteString(pairNotes)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdown writes a table in Markdown. Its columns are aligned as text, too.
func markdown(b *strings.Builder, grid [][]string) {
	widths := columnWidths(grid)
	rule := make([]string, len(widths))
	for i, width := range widths {
		rule[i] = strings.Repeat("-", width)
	}
	for _, cells := range slices.Insert(slices.Clone(grid), 1, rule) {
		for i, cell := range cells {
			fmt.Fprintf(b, "| %-*s ", widths[i], cell)
		}
		b.WriteString("|\n")
	}
}
