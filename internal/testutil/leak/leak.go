// Package leak fails tests that leave goroutines, open descriptors or mappings of shared
// memory (memfd) behind. Only tests import it.
//
// This line checks all tests of a package together:
//
//	func TestMain(m *testing.M) { leak.Main(m) }
//
// This line checks a single test, which must not run in parallel:
//
//	defer leak.Snapshot().Check(t)
//
// The call leak.Watch(t) does the same at the end of the test, after its cleanups.
//
// On systems without /proc, only goroutines are checked.
package leak

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Goroutines may need time to end. So the check is repeated every settleStep until
// settleLimit. Arbitrary.
const (
	settleLimit = 5 * time.Second
	settleStep  = 5 * time.Millisecond
)

// Main runs the tests of m and exits with their exit code. If the tests passed but left
// resources behind, Main prints them and exits with 1.
func Main(m *testing.M) { os.Exit(run(m, os.Stderr, settleLimit)) }

func run(m interface{ Run() int }, w io.Writer, limit time.Duration) int {
	before := Snapshot()
	code := m.Run()
	if code != 0 {
		// A failed test may have left resources behind.
		return code
	}
	leaked := before.settle(limit)
	if leaked == "" {
		return 0
	}
	fmt.Fprintf(w, "leak: the tests passed but left behind:\n%s", leaked)
	return 1
}

// A Baseline is a list of the process's resources at one moment.
type Baseline struct {
	goroutines  goleak.Option
	descriptors []string
	mappings    []string
}

// Snapshot lists the resources that the process has now.
func Snapshot() *Baseline {
	startNetpoll()
	return &Baseline{
		goroutines:  goleak.IgnoreCurrent(),
		descriptors: descriptors(),
		mappings:    mappings(),
	}
}

// Check fails the test if the process has resources that are not in the snapshot. It
// waits five seconds for them to go away. Only the test's goroutine may call Check.
func (b *Baseline) Check(t testing.TB) {
	t.Helper()
	if leaked := b.settle(settleLimit); leaked != "" {
		t.Errorf("left behind:\n%s", leaked)
	}
}

// Watch makes the test fail if it leaves resources behind that it had not when Watch was
// first called. The check runs after the cleanups that the test registers later. Further
// calls for the same test do nothing.
func Watch(t testing.TB) {
	t.Helper()
	if _, watched := watchedTests.LoadOrStore(t, true); watched {
		return
	}
	before := Snapshot()
	t.Cleanup(func() {
		watchedTests.Delete(t)
		if !t.Failed() {
			before.Check(t)
		}
	})
}

// watchedTests has the running tests for which Watch was called, as testing.TB.
var watchedTests sync.Map

// settle waits until all new resources are gone. It returns a list of those that are left
// after the time limit.
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

// added returns the elements of the slice current that are not in the slice earlier.
func added(earlier, current []string) []string {
	return slices.DeleteFunc(current, func(s string) bool { return slices.Contains(earlier, s) })
}
