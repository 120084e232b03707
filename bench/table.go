package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A column describes one column of the table. cell() returns "" if the row has no such
// figure.
type column struct {
	name string
	cell func(Row) string
}

func columns() []column {
	return []column{
		{"p50 µs", func(r Row) string { return formatMicros(r.P50) }},
		{"p99 µs", func(r Row) string { return formatMicros(r.P99) }},
		{"p99.9 µs", func(r Row) string { return formatMicros(r.P999) }},
		{"max µs", func(r Row) string { return formatMicros(r.Max) }},
		{"msgs/s", func(r Row) string { return formatSI(r.MsgsPerSec) }},
		{"B/s", func(r Row) string { return formatSI(r.BytesPerSec) }},
		{"CPU ns", func(r Row) string { return formatInteger(r.CPU) }},
		{"allocs", func(r Row) string { return perMessage(r, r.Allocs) }},
		{"switches", func(r Row) string { return perMessage(r, r.CtxSwitches) }},
		{"B/conn", func(r Row) string { return formatSI(r.RSSPerConn) }},
		{"scaling", func(r Row) string { return formatRatio(r.Scaling) }},
		{"rounds", stateOf},
		{"line ns", func(r Row) string { return formatInteger((r.CacheLineBefore + r.CacheLineAfter) / 2) }},
		{"× gnet", func(r Row) string { return formatRatio(r.RatioToGnet) }},
		{"× floor", func(r Row) string { return formatRatio(r.RatioToFloor) }},
	}
}

const tableNotes = `
CPU time, allocations and context switches are sums of both sides, per round trip.
Line ns is the round trip of a cache line, mean of one before and one after the row.
The processors are near each other if it is below 250 ns, and far otherwise. Rounds are
those of which the row is the median: those in the state of most of this run, or all of
them, mixed, if a row has none. Ratios are of rows in the same state.
Memory is that of both ends of a connection. × gnet and × floor are the p50 as a
multiple of the p50 of gnet and of the floor (less is better). Where only rates are
known, they are the ratio of the rates (more is better). The floor of shared memory
is a cache line between two processors, and for streams and large messages a copy into
shared memory and out of it. The floor of sockets is a UDP ping-pong without a library.
`

// printTable writes a table for each group of rows that can be compared.
func printTable(w io.Writer, rows []Row) error {
	var b strings.Builder
	for _, group := range groups(rows) {
		printGroup(&b, group)
	}
	if len(rows) == 0 {
		b.WriteString("nothing was measured\n")
	} else {
		b.WriteString(tableNotes)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// groups puts rows of the same workload and parameters together, in their order.
func groups(rows []Row) (all [][]Row) {
	at := map[Case]int{}
	for _, r := range rows {
		i, known := at[r.withoutPeer()]
		if !known {
			i = len(all)
			at[r.withoutPeer()] = i
			all = append(all, nil)
		}
		all[i] = append(all[i], r)
	}
	return all
}

// printGroup writes the table of one group. It leaves out empty columns.
func printGroup(b *strings.Builder, rows []Row) {
	grid := [][]string{{rows[0].title()}}
	for _, r := range rows {
		grid = append(grid, []string{"  " + r.label()})
	}
	for _, col := range columns() {
		known := false
		cells := make([]string, len(rows))
		for i, r := range rows {
			cells[i] = col.cell(r)
			known = known || cells[i] != ""
		}
		if !known {
			continue
		}
		grid[0] = append(grid[0], col.name)
		for i, cell := range cells {
			grid[i+1] = append(grid[i+1], cell)
		}
	}
	b.WriteByte('\n')
	align(b, grid)
}

// columnWidths returns the number of characters of the longest cell of each column.
func columnWidths(grid [][]string) []int {
	widths := make([]int, len(grid[0]))
	for _, cells := range grid {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// align writes a table. The first column is aligned left, the other columns right.
func align(b *strings.Builder, grid [][]string) {
	widths := columnWidths(grid)
	for _, cells := range grid {
		fmt.Fprintf(b, "%-*s", widths[0], cells[0])
		for i, cell := range cells[1:] {
			fmt.Fprintf(b, "  %*s", widths[i+1], cell)
		}
		b.WriteByte('\n')
	}
}

// title describes the workload and its parameters.
func (c Case) title() string {
	text := fmt.Sprintf("%s, %s", c.Workload, bytesOf(c.Size))
	if c.Workload == workStream {
		text += fmt.Sprintf(", %d in flight", c.InFlight)
	}
	if c.Workload == workLoops {
		text += fmt.Sprintf(", of %d", c.Loops)
	}
	if c.Workload == workConnsIdle || c.Workload == workConnsActive {
		text += fmt.Sprintf(", of %d", c.Connections)
	}
	return text
}

// label returns peer/path/mode, as the flag -peers accepts it.
func (c Case) label() string { return c.Peer + "/" + c.Path + "/" + c.Mode }

func bytesOf(n int) string {
	if n >= 1<<10 && n%(1<<10) == 0 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

func formatMicros(ns float64) string {
	switch {
	case ns <= 0:
		return ""
	case ns < 1e5:
		return fmt.Sprintf("%.2f", ns/1e3)
	}
	return fmt.Sprintf("%.0f", ns/1e3)
}

func formatInteger(n float64) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", n)
}

// stateOf returns the number of rounds and their state.
func stateOf(r Row) string {
	if r.State == stateUnknown {
		return ""
	}
	return fmt.Sprintf("%d %s", r.StateRounds, r.State)
}

// perMessage formats n, which is the usage of a resource for each message. It returns ""
// if the resource usage of the row is not known.
func perMessage(r Row, n float64) string {
	if r.CPU <= 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", n)
}

// formatRatio formats a number with three digits.
func formatRatio(n float64) string {
	switch {
	case n <= 0:
		return ""
	case n < 0.1:
		return fmt.Sprintf("%.3f", n)
	case n < 9.995:
		return fmt.Sprintf("%.2f", n)
	case n < 99.95:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

// formatSI formats a number with three digits and the suffix k, M or G.
func formatSI(n float64) string {
	unit := ""
	for _, next := range []string{"k", "M", "G"} {
		if n < 999.5 {
			break
		}
		n, unit = n/1e3, next
	}
	return formatRatio(n) + unit
}
