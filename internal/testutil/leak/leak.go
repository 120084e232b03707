// Package leak fails a test run that leaves resources behind: goroutines, open
// descriptors, or mappings of shared memory (memfd). Only tests import it.
//
// One line checks all tests of a package together:
//
//	func TestMain(m *testing.M) { leak.Main(m) }
//
// Another checks a single test, which must not run in parallel with others:
//
//	defer leak.Snapshot().Check(t)
//
// On systems without /proc it checks goroutines only.
package leak

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Goroutines need some time to end. So after the end of the tests the resources are
// listed once in each settleStep, for the time settleLimit. A resource that still exists
// after this time counts as leaked. Both numbers are arbitrary.
const (
	settleLimit = 5 * time.Second
	settleStep  = 5 * time.Millisecond
)

// Main runs the tests of m and exits the process with the exit code of the run. If the
// tests passed but left resources behind, Main lists them on standard error and exits
// with 1.
func Main(m *testing.M) { os.Exit(run(m, os.Stderr, settleLimit)) }

func run(m interface{ Run() int }, w io.Writer, limit time.Duration) int {
	before := Snapshot()
	code := m.Run()
	if code != 0 {
		// If a test has failed, the remaining resources are not reported, because the
		// failure may be their cause.
		return code
	}
	leaked := before.settle(limit)
	if leaked == "" {
		return 0
	}
	fmt.Fprintf(w, "leak: the tests passed but left behind:\n%s", leaked)
	return 1
}

// A Baseline is a list of the resources that the process had at one moment.
type Baseline struct {
	goroutines  goleak.Option
	descriptors []string
	mappings    []string
}

// Snapshot returns a list of the resources that the process has now.
func Snapshot() *Baseline {
	startNetpoll()
	return &Baseline{
		goroutines:  goleak.IgnoreCurrent(),
		descriptors: descriptors(),
		mappings:    mappings(),
	}
}

// Check fails the test if the process has resources that it did not have at the time of
// the snapshot. Check waits up to five seconds for these resources to disappear. It must
// be called from the goroutine of the test.
func (b *Baseline) Check(t testing.TB) {
	t.Helper()
	if leaked := b.settle(settleLimit); leaked != "" {
		t.Errorf("left behind:\n%s", leaked)
	}
}

// settle waits until the process has only resources that are in the baseline, or until
// the time limit has passed. It returns a list of the other resources. settle does not
// run the garbage collector. So a resource counts as leaked if only a finalizer closes
// it.
func (b *Baseline) settle(limit time.Duration) string {
	deadline := time.Now().Add(limit)
	for {
		leaked := b.leaked()
		if leaked == "" || time.Now().After(deadline) {
			return leaked
		}
		time.Sleep(settleStep)
	}
}

func (b *Baseline) leaked() string {
	var list strings.Builder
	if err := goleak.Find(b.goroutines); err != nil {
		fmt.Fprintf(&list, "%v\n", err)
	}
	for _, d := range added(b.descriptors, descriptors()) {
		fmt.Fprintf(&list, "descriptor %s\n", d)
	}
	for _, m := range added(b.mappings, mappings()) {
		fmt.Fprintf(&list, "mapping %s\n", m)
	}
	return list.String()
}

// added returns those elements of the list current that the list earlier does not have.
func added(earlier, current []string) []string {
	return slices.DeleteFunc(current, func(s string) bool { return slices.Contains(earlier, s) })
}
