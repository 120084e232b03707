package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
)

// A results is an io.Writer that finds the results of the cases in the guest's console
// output.
type results struct {
	missing []string // names of the cases that have no result yet
	failed  []string
	ended   []endedCase
	line    []byte // first part of the present line, which has no line end yet
}

// An endedCase is a case that has a result.
type endedCase struct {
	name    string
	seconds float64 // duration, with the removal of what the case has left
}

func newResults(cases []testCase) *results {
	r := &results{}
	for _, c := range cases {
		r.missing = append(r.missing, c.name)
	}
	return r
}

// resultLine matches the result of a case, which init prints with the duration. Output of
// another program may precede it on the line.
var resultLine = regexp.MustCompile(`(PASS|FAIL) vm/([\w.-]+), ([\d.]+) s`)

// Write takes the next part of the console's output.
func (r *results) Write(b []byte) (int, error) {
	r.line = append(r.line, b...)
	for {
		line, rest, whole := bytes.Cut(r.line, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		r.read(line)
		r.line = rest
	}
}

func (r *results) read(line []byte) {
	found := resultLine.FindSubmatch(line)
	if found == nil {
		return
	}
	name := string(found[2])
	i := slices.Index(r.missing, name)
	if i < 0 {
		return
	}
	r.missing = slices.Delete(r.missing, i, i+1)
	if string(found[1]) == "FAIL" {
		r.failed = append(r.failed, name)
	}
	seconds, _ := strconv.ParseFloat(string(found[3]), 64) // 0 for a damaged line
	r.ended = append(r.ended, endedCase{name, seconds})
}

// printSlowest prints the slowest cases.
func (r *results) printSlowest(out io.Writer) {
	const most = 10
	byTime := slices.SortedFunc(slices.Values(r.ended), func(a, b endedCase) int { return cmp.Compare(b.seconds, a.seconds) })
	var sum float64
	for _, c := range byTime {
		sum += c.seconds
	}
	fmt.Fprintf(out, "vm: %d cases took %.0f s; the slowest:\n", len(byTime), sum)
	for _, c := range byTime[:min(most, len(byTime))] {
		fmt.Fprintf(out, "vm: %6.1f s  %s\n", c.seconds, c.name)
	}
}

// finish prints the slowest cases, and FAIL for each case without a result. If a case has
// failed or has no result, it returns an error.
func (r *results) finish(out io.Writer) error {
	r.printSlowest(out)
	for _, name := range r.missing {
		fmt.Fprintf(out, "FAIL vm/%s (no result)\n", name)
	}
	failed := len(r.failed) + len(r.missing)
	if failed > 0 {
		return fmt.Errorf("%d of the cases failed: %q", failed, slices.Concat(r.failed, r.missing))
	}
	return nil
}
