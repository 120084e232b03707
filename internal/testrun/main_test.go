package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const events = `{"Action":"output","Package":"m/p","Test":"TestA/x","Output":"    a_test.go:1: too cold\n"}
{"Action":"output","Package":"m/p","Test":"TestA/x","Output":"2026/11/28 WARN a line of a log error=\"a: b\"\n"}
{"Action":"output","Package":"m/p","Test":"TestA/x","Output":"    --- SKIP: TestA/x (0.00s)\n"}
{"Action":"skip","Package":"m/p","Test":"TestA/x","Elapsed":0}
{"Action":"pass","Package":"m/p","Test":"TestA/y","Elapsed":2.5}
{"Action":"pass","Package":"m/p","Test":"TestA","Elapsed":3}
{"Action":"output","Package":"m/p","Test":"TestB","Output":"    a_test.go:9: expected 1\n"}
{"Action":"fail","Package":"m/p","Test":"TestB","Elapsed":1}
{"Action":"output","Package":"m/p","Test":"TestHangs","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"m/p","Elapsed":4}
{"ImportPath":"m/q","Action":"build-output","Output":"q.go:1: undefined: x\n"}
{"Action":"pass","Package":"m/r","Elapsed":0.5}
`

// TestReport checks that the report shows what failed, also of tests that never ended, why
// tests were skipped, and the times without those of tests that have parts.
func TestReport(t *testing.T) {
	out := &strings.Builder{}
	r := newReport(out)
	require.NoError(t, read(r, strings.NewReader(events+"not an event\n")))
	r.summary(time.Minute)
	require.Equal(t, `FAIL m/p TestB (1.0 s)
    a_test.go:9: expected 1
FAIL m/p 4.0 s
panic: test timed out
q.go:1: undefined: x
ok   m/r 0.5 s
not an event

2 tests passed in 2 packages in 60 s
1 skipped: too cold
slowest packages:
     4.0 s  m/p
     0.5 s  m/r
slowest tests:
     2.5 s  m/p TestA/y
     1.0 s  m/p TestB
     0.0 s  m/p TestA/x
failed:
  m/p TestB
  m/p
`, out.String())
}

// TestNothingRan checks that a run without a test is a failure.
func TestNothingRan(t *testing.T) {
	out := &strings.Builder{}
	require.ErrorContains(t, runAll(newReport(out), "go", nil, nil), "no directory")
	require.ErrorContains(t, runAll(newReport(out), "go", []string{"."}, []string{"-run", "^$"}), "no test ran")
	require.ErrorContains(t, runAll(newReport(out), "go", []string{"."}, []string{"./missing"}), "exit status")
}
