package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Counts has the instructions for each operation, by case and function.
type counts map[string]map[string]float64

// load reads what save has written.
func load(path string) (counts, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	c := make(counts)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) != 3 {
			return nil, fmt.Errorf("%s: a line without three fields: %q", path, lines.Text())
		}
		n, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if c[fields[0]] == nil {
			c[fields[0]] = make(map[string]float64)
		}
		c[fields[0]][fields[2]] = n
	}
	return c, lines.Err()
}

// save writes a line for each function of each case, with three fields: the name of the
// case, the count, and the name of the function.
func (c counts) save(path string) error {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c)) {
		for _, function := range slices.Sorted(maps.Keys(c[name])) {
			fmt.Fprintf(&b, "%s\t%.6f\t%s\n", name, c[name][function], function)
		}
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// A kind says in which column the instructions of a function are counted.
type kind uint8

const (
	counted     kind = iota
	memoryOrMap      // copying, clearing and comparing memory, and maps
	uncounted        // the Go runtime, and the functions that drive the loops
)

func kindOf(function string) kind {
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(function, prefix) }
	switch {
	case slices.ContainsFunc([]string{"runtime.mem", "runtime.map", "internal/runtime/maps.", "internal/bytealg.", "memeqbody", "cmpbody"}, hasPrefix):
		return memoryOrMap
	// Assembly of the runtime has names without a package.
	case slices.ContainsFunc([]string{"runtime.", "runtime/", "internal/", "syscall.", "testing.", "testing/", pkg + "."}, hasPrefix), !strings.Contains(function, "."):
		return uncounted
	}
	return counted
}

// sum returns the instructions of all functions of a kind.
func sum(costs map[string]float64, k kind) (all float64) {
	for _, function := range slices.Sorted(maps.Keys(costs)) {
		if kindOf(function) == k {
			all += costs[function]
		}
	}
	return all
}

const nameWidth = len("local-message")

func printHead(out io.Writer, compare bool) {
	fmt.Fprintf(out, "%-*s %12s %8s %6s", nameWidth, "case", "instructions", "mem+map", "turns")
	if compare {
		fmt.Fprintf(out, " %9s %7s", "base", "ratio")
	}
	fmt.Fprintln(out)
}

// printLine prints the line of a case. If base is nil, there is nothing to compare with.
func printLine(out io.Writer, test testCase, p *profile, base map[string]float64) {
	now := sum(p.costs, counted)
	turns := p.calls["github.com/rdmaloop/rdmaloop/reactor.(*Loop).RunOnce"]
	fmt.Fprintf(out, "%-*s %12.1f %8.1f %6.3f", nameWidth, test.name, now, sum(p.costs, memoryOrMap), turns)
	if base != nil {
		before := sum(base, counted)
		fmt.Fprintf(out, " %9.1f %7.4f", before, now/before)
	}
	fmt.Fprintf(out, "  %s\n", test.what)
}

// Limits of the list of changes. Arbitrary.
const (
	maxChanges = 10   // largest number of functions for each case
	minChange  = 5e-4 // smallest change as a part of the case's instructions
)

// printChanges prints the functions whose counts have changed most since base.
func printChanges(out io.Writer, base, now counts) {
	for _, test := range cases {
		was, is := base[test.name], now[test.name]
		if was == nil || is == nil {
			continue
		}
		least := minChange * sum(was, counted)
		changed := changes(was, is)
		for _, function := range changed[:min(len(changed), maxChanges)] {
			if change := is[function] - was[function]; math.Abs(change) >= least {
				fmt.Fprintf(out, "%-*s %+12.1f  %s\n", nameWidth, test.name, change, function)
			}
		}
	}
}

// changes returns the functions of the columns, the largest change first.
func changes(was, is map[string]float64) []string {
	all := maps.Clone(was)
	maps.Copy(all, is)
	maps.DeleteFunc(all, func(function string, _ float64) bool { return kindOf(function) == uncounted })
	size := func(function string) float64 { return math.Abs(is[function] - was[function]) }
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(size(b), size(a)), strings.Compare(a, b))
	})
}
