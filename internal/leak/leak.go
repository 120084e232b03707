// Package leak makes a test run fail when it leaves something behind:
// goroutines, open descriptors, or mappings of shared memory (memfd). Only tests
// import it.
//
// A package is watched as a whole by one line:
//
//	func TestMain(m *testing.M) { leak.Main(m) }
//
// and a single test, which must not run beside others, by:
//
//	defer leak.Snapshot().Check(t)
//
// On systems without /proc only goroutines are watched.
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

// What ends in the background, as goroutines do after their last act, has
// settleLimit to do so. It is looked at every settleStep.
const (
	settleLimit = 5 * time.Second
	settleStep  = 5 * time.Millisecond
)

// Main runs the tests of m, and ends the process with the code of the run. When
// the tests passed but left something behind, it lists it on standard error,
// and the code is 1.
func Main(m *testing.M) { os.Exit(run(m, os.Stderr, settleLimit)) }

func run(m interface{ Run() int }, w io.Writer, limit time.Duration) int {
	before := Snapshot()
	code := m.Run()
	if code != 0 {
		return code // a failed test may leave anything behind: its failure is the news
	}
	leaked := before.settle(limit)
	if leaked == "" {
		return 0
	}
	fmt.Fprintf(w, "leak: the tests passed, but left behind\n%s", leaked)
	return 1
}

// A Baseline is what the process held at one moment.
type Baseline struct {
	goroutines  goleak.Option
	descriptors []string
	mappings    []string
}

// Snapshot returns what the process holds now.
func Snapshot() *Baseline {
	startNetpoll()
	return &Baseline{
		goroutines:  goleak.IgnoreCurrent(),
		descriptors: descriptors(),
		mappings:    mappings(),
	}
}

// Check fails the test when the process holds more than at the time of the
// snapshot, and goes on doing so for five seconds. It must be called from the
// goroutine of the test.
func (b *Baseline) Check(t testing.TB) {
	t.Helper()
	if leaked := b.settle(settleLimit); leaked != "" {
		t.Errorf("left behind:\n%s", leaked)
	}
}

// settle waits until nothing is left behind, or the limit has passed, and
// returns the list of what is. The garbage collector is not asked to help:
// what is closed by a finalizer is a leak.
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

// added returns what is in now and not in before.
func added(before, now []string) []string {
	return slices.DeleteFunc(now, func(s string) bool { return slices.Contains(before, s) })
}
