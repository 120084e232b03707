package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
)

// A results is an io.Writer that finds the results of the cases in the guest's console
// output.
type results struct {
	missing []string // names of the cases that have no result yet
	failed  []string
	line    []byte // first part of the present line, which has no line end yet
}

func newResults(cases []string) *results { return &results{missing: slices.Clone(cases)} }

// resultLine matches the result of a case. Output of another program may precede it on
// the line.
var resultLine = regexp.MustCompile(`(PASS|FAIL) vm/([\w.-]+)`)

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
}

// finish prints FAIL for each case without a result. If a case has failed or has no
// result, it returns an error.
func (r *results) finish(out io.Writer) error {
	for _, name := range r.missing {
		fmt.Fprintf(out, "FAIL vm/%s (no result)\n", name)
	}
	failed := len(r.failed) + len(r.missing)
	if failed > 0 {
		return fmt.Errorf("%d of the cases failed: %q", failed, slices.Concat(r.failed, r.missing))
	}
	return nil
}
