package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	text, err := os.ReadFile("testdata/callgrind.txt")
	require.NoError(t, err)
	p, err := parse(strings.NewReader(string(text)))
	require.NoError(t, err)
	require.Equal(t, map[string]float64{
		// 8192 + 4096 + 1024 in a recursion, without the call of Poll
		"github.com/rdmaloop/rdmaloop/reactor.(*Loop).turn": 1.625,
		"github.com/rdmaloop/rdmaloop/cq.(*Queue).Poll":     2,
		"runtime.memmove": 1,
		"gogo":            0.5,
	}, p.costs)
	require.Equal(t, map[string]float64{"github.com/rdmaloop/rdmaloop/cq.(*Queue).Poll": 2, "runtime.memmove": 1}, p.calls)
}

func TestParseErrors(t *testing.T) {
	text, err := os.ReadFile("testdata/callgrind.txt")
	require.NoError(t, err)
	for _, bad := range []struct{ name, old, replacement, want string }{
		{"a lost function", "fn=gogo\n0 4096\n", "", "have 37888 instructions, and its summary 41984"},
		{"no function", string(text), "events: Ir\nsummary: 0\n", "have 0 instructions"},
		{"two events", "0 16384\n", "0 16384 3\n", "not one position and one cost"},
		{"no number", "0 16384\n", "0 many\n", "invalid syntax"},
		{"no number of calls", "calls=16384 0", "calls=+ 0", "invalid syntax"},
	} {
		t.Run(bad.name, func(t *testing.T) {
			_, err := parse(strings.NewReader(strings.Replace(string(text), bad.old, bad.replacement, 1)))
			require.ErrorContains(t, err, bad.want)
		})
	}
}

func TestMissingValgrind(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	require.ErrorContains(t, run(nil, io.Discard, io.Discard), "apt-get install valgrind")
}
