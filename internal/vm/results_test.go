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
		{"all passed", "PASS vm/a\nPASS vm/b\n", "", ""},
		{"one failed", "PASS vm/a\r\nFAIL vm/b\r\n", `1 of the cases failed: ["b"]`, ""},
		{"behind other output", "ping dataPASS vm/a\n[ 1.0] kernel: PASS vm/b\n", "", ""},
		{"guest died", "PASS vm/a\n==== vm/b\nKernel panic\n", `["b"]`, "FAIL vm/b"},
		{"no output", "", `2 of the cases failed: ["a" "b"]`, "FAIL vm/a (no result)\nFAIL vm/b"},
		{"cut off", "PASS vm/a\nPASS vm/b", `["b"]`, "FAIL vm/b"},
		{"first result counts", "FAIL vm/a\nPASS vm/a\nPASS vm/b\n", `["a"]`, ""},
		{"longer name", "PASS vm/a\nPASS vm/b2\n", `["b"]`, "FAIL vm/b"},
		{"unknown name", "PASS vm/a\nPASS vm/b\nFAIL vm/c\n", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newResults([]string{"a", "b"})
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
