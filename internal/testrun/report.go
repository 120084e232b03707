package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// An event is one line of test2json. See go doc test2json.
type event struct {
	Action  string
	Package string
	Test    string  // empty in an event of a package
	Elapsed float64 // seconds
	Output  string
}

// A timed is a package or a test, and how long it took.
type timed struct {
	name    string
	seconds float64
}

// Numbers of packages and tests that the summary names.
const slowest = 10

// A report collects the events of all modules.
type report struct {
	out      io.Writer
	output   map[string][]string // by package, or package and test, until it ends
	skips    map[string]int      // number of tests by the reason of the skip
	packages []timed
	tests    []timed // tests that have no parts
	passed   int     // number of tests that passed
	failed   []string
}

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[string][]string{}, skips: map[string]int{}}
}

func (r *report) add(e event) {
	name := strings.TrimSpace(e.Package + " " + e.Test)
	switch e.Action {
	case "output":
		r.output[name] = append(r.output[name], e.Output)
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e)
		} else {
			r.endTest(name, e)
		}
		delete(r.output, name)
	}
}

func (r *report) endTest(name string, e event) {
	r.tests = append(r.tests, timed{name, e.Elapsed})
	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skips[skipReason(r.output[name])]++
	case "fail":
		r.failed = append(r.failed, name)
		fmt.Fprintf(r.out, "FAIL %s (%.1f s)\n%s", name, e.Elapsed, strings.Join(r.output[name], ""))
	}
}

func (r *report) endPackage(e event) {
	if e.Action != "skip" {
		r.packages = append(r.packages, timed{e.Package, e.Elapsed})
	}
	switch e.Action {
	case "pass":
		fmt.Fprintf(r.out, "ok   %s %.1f s\n", e.Package, e.Elapsed)
	case "fail":
		r.failed = append(r.failed, e.Package)
		fmt.Fprintf(r.out, "FAIL %s %.1f s\n", e.Package, e.Elapsed)
		// What a test that never ended has printed, and what the package has.
		for _, name := range slices.Sorted(maps.Keys(r.output)) {
			if name == e.Package || strings.HasPrefix(name, e.Package+" ") {
				fmt.Fprint(r.out, strings.Join(r.output[name], ""))
				delete(r.output, name)
			}
		}
	}
}

// message matches a line that a test has printed, such as "a_test.go:9: reason". Lines of a log
// do not match.
var message = regexp.MustCompile(`^\S+\.go:\d+: (.+)$`)

// skipReason returns the message of the skip, which is the last one that the test has printed.
func skipReason(output []string) string {
	for _, line := range slices.Backward(output) {
		if m := message.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			return m[1]
		}
	}
	return "no reason"
}

// summary prints the numbers of tests, and what took longest.
func (r *report) summary(took time.Duration) {
	fmt.Fprintf(r.out, "\n%d tests passed in %d packages in %.0f s\n", r.passed, len(r.packages), took.Seconds())
	for _, reason := range slices.Sorted(maps.Keys(r.skips)) {
		fmt.Fprintf(r.out, "%d skipped: %s\n", r.skips[reason], reason)
	}
	r.list("slowest packages", r.packages)
	r.list("slowest tests", leaves(r.tests))
	if len(r.failed) > 0 {
		fmt.Fprintf(r.out, "failed:\n  %s\n", strings.Join(r.failed, "\n  "))
	}
}

func (r *report) list(title string, all []timed) {
	slices.SortFunc(all, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintf(r.out, "%s:\n", title)
	for _, t := range all[:min(slowest, len(all))] {
		fmt.Fprintf(r.out, "  %6.1f s  %s\n", t.seconds, t.name)
	}
}

// leaves returns the tests that have no parts, because the time of a test includes that
// of its parts.
func leaves(tests []timed) []timed {
	parents := map[string]bool{}
	for _, t := range tests {
		for i, c := range t.name {
			if c == '/' && strings.Contains(t.name[:i], " ") {
				parents[t.name[:i]] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(tests), func(t timed) bool { return parents[t.name] })
}
