package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
)

// results reads from the guest's console how the cases went.
type results struct {
	missing []string // cases of which nothing is known yet
	failed  []string
	line    []byte // the part of a line that has come so far
}

func newResults(cases []string) *results { return &results{missing: slices.Clone(cases)} }

// What a program wrote may stand in front, without an end of line.
var verdict = regexp.MustCompile(`(PASS|FAIL) vm/([\w.-]+)`)

// Write takes the console's output in pieces of any size.
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
	found := verdict.FindSubmatch(line)
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

// finish reports as failed what the guest said nothing about.
func (r *results) finish(out io.Writer) error {
	for _, name := range r.missing {
		fmt.Fprintf(out, "FAIL vm/%s (did not run to its end)\n", name)
	}
	failed := len(r.failed) + len(r.missing)
	if failed > 0 {
		return fmt.Errorf("%d of the cases failed: %q", failed, slices.Concat(r.failed, r.missing))
	}
	return nil
}
