package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/perf/benchmath"
)

// A figure is a value that -compare compares, with one value for each round.
type figure struct {
	name         string
	values       []float64
	moreIsBetter bool
}

// figuresOf returns the figures of rows: the p50, or the rate if messages are not timed.
func figuresOf(rows []Row) (all []figure) {
	for _, r := range rows {
		all = append(all, figure{r.label() + " " + r.title(), r.Rounds, r.P50 == 0})
	}
	return all
}

// figuresOfPairs returns the figures of the rows of a run with -pairs.
func figuresOfPairs(rows []PairRow) (all []figure) {
	for _, r := range rows {
		all = append(all, figure{r.Name, r.Ratios, r.MoreIsBetter})
	}
	return all
}

var errOtherRun = errors.New("the file is not from a run of the same kind, with or without -pairs")

// readFigures reads a file that a run with -json has written.
func readFigures(name string, pairs bool) (all []figure, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if pairs {
		var rows []PairRow
		err = json.Unmarshal(text, &rows)
		all = figuresOfPairs(rows)
	} else {
		var rows []Row
		err = json.Unmarshal(text, &rows)
		all = figuresOf(rows)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, f := range all {
		if len(f.values) == 0 {
			return nil, fmt.Errorf("%s: %w", name, errOtherRun)
		}
	}
	return all, nil
}

// minCompared is the smallest number of rounds with which the U test can find a
// difference at the level of 5 %.
const minCompared = 4

// printComparison prints the figures that have become better or worse. A figure counts
// as changed if a Mann-Whitney U test finds a difference at the level of 5 %.
func printComparison(w io.Writer, before, after []figure) error {
	var b strings.Builder
	grid := [][]string{{"compared with the earlier run", "before", "after", "change", "", "p"}}
	same, few := 0, 0
	for _, now := range after {
		i := slices.IndexFunc(before, func(f figure) bool { return f.name == now.name })
		switch {
		case i < 0:
		case min(len(before[i].values), len(now.values)) < minCompared:
			few++
		default:
			if cells := difference(before[i], now); cells != nil {
				grid = append(grid, cells)
			} else {
				same++
			}
		}
	}
	if len(grid) > 1 {
		align(&b, grid)
	}
	fmt.Fprintf(&b, "neither better nor worse beyond noise: %d\n", same)
	if few > 0 {
		fmt.Fprintf(&b, "fewer than %d rounds, too few to compare: %d\n", minCompared, few)
	}
	_, err := io.WriteString(w, "\n"+b.String())
	return err
}

// difference returns the cells of the table for a figure that has changed, or nil if it
// has not.
func difference(before, after figure) []string {
	thresholds := benchmath.DefaultThresholds
	old := benchmath.NewSample(slices.Clone(before.values), &thresholds)
	now := benchmath.NewSample(slices.Clone(after.values), &thresholds)
	test := benchmath.AssumeNothing.Compare(old, now)
	was, is := benchmath.AssumeNothing.Summary(old, confidence).Center, benchmath.AssumeNothing.Summary(now, confidence).Center
	if test.P >= test.Alpha || was == is {
		return nil
	}
	verdict := "worse"
	if (is > was) == after.moreIsBetter {
		verdict = "better"
	}
	return []string{after.name, formatSI(was), formatSI(is), test.FormatDelta(was, is), verdict, fmt.Sprintf("%.3f", test.P)}
}
