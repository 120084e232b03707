package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestResults(t *testing.T) {
	for _, test := range []struct{ name, console, failed, printed string }{
		{"all passed", "PASS vm/a, 1.5 s\nPASS vm/b, 1.5 s\n", "", ""},
		{"one failed", "PASS vm/a, 1.5 s\r\nFAIL vm/b, 1.5 s\r\n", `1 of the cases failed: ["b"]`, ""},
		{"behind other output", "ping dataPASS vm/a, 1.5 s\n[ 1.0] kernel: PASS vm/b, 1.5 s\n", "", ""},
		{"guest died", "PASS vm/a, 1.5 s\n==== vm/b\nKernel panic\n", `["b"]`, "FAIL vm/b"},
		{"no output", "", `2 of the cases failed: ["a" "b"]`, "FAIL vm/a (no result)\nFAIL vm/b (no result)"},
		{"cut off", "PASS vm/a, 1.5 s\nPASS vm/b, 1.5 s", `["b"]`, "FAIL vm/b"},
		{"first result counts", "FAIL vm/a, 1.5 s\nPASS vm/a, 1.5 s\nPASS vm/b, 1.5 s\n", `["a"]`, ""},
		{"longer name", "PASS vm/a, 1.5 s\nPASS vm/b2, 1.5 s\n", `["b"]`, "FAIL vm/b"},
		{"unknown name", "PASS vm/a, 1.5 s\nPASS vm/b, 1.5 s\nFAIL vm/c, 1.5 s\n", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newResults([]testCase{{name: "a"}, {name: "b"}})
			_, err := io.Copy(r, iotest.OneByteReader(strings.NewReader(test.console)))
			require.NoError(t, err)
			var out bytes.Buffer
			err = r.finish(&out)
			if test.failed == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.failed)
			}
			require.Contains(t, out.String(), test.printed)
		})
	}
}

// The slowest cases are printed, at most ten of them, slowest first.
func TestSlowestCases(t *testing.T) {
	r := newResults([]testCase{{name: "a"}, {name: "b"}, {name: "c"}})
	_, err := io.WriteString(r, "PASS vm/a, 1.5 s\nFAIL vm/b, 20.25 s\nPASS vm/c, 3 s\n")
	require.NoError(t, err)
	var out bytes.Buffer
	r.printSlowest(&out)
	require.Equal(t, "vm: 3 cases took 25 s; the slowest:\nvm:   20.2 s  b\nvm:    3.0 s  c\nvm:    1.5 s  a\n", out.String())

	for range 20 {
		r.ended = append(r.ended, endedCase{"d", 0.5})
	}
	out.Reset()
	r.printSlowest(&out)
	require.Len(t, strings.Split(strings.TrimSpace(out.String()), "\n"), 1+10)
}
