package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKinds(t *testing.T) {
	for function, want := range map[string]kind{
		"github.com/rdmaloop/rdmaloop/reactor.(*Loop).turn":               counted,
		"github.com/rdmaloop/rdmaloop/internal/wire.Build":                counted,
		"github.com/rdmaloop/rdmaloop/internal/slots.(*T[go.shape.1]).At": counted,
		"golang.org/x/sys/unix.RawSyscall6.abi0":                          counted,
		"hash/crc32.update":                                               counted,
		"time.Since":                                                      counted,
		"runtime.memmove":                                                 memoryOrMap,
		"runtime.memclrNoHeapPointers":                                    memoryOrMap,
		"runtime.mapaccess1_fast32":                                       memoryOrMap,
		"internal/runtime/maps.(*Iter).Next":                              memoryOrMap,
		"memeqbody":                                                       memoryOrMap,
		"runtime.findRunnable":                                            uncounted,
		"internal/runtime/syscall/linux.Syscall6":                         uncounted,
		"syscall.RawSyscall6.abi0":                                        uncounted,
		"gogo":                                                            uncounted,
		pkg + ".(*pair).turn":                                             uncounted,
	} {
		require.Equal(t, want, kindOf(function), function)
	}
}

func TestSaveAndCompare(t *testing.T) {
	const turn, poll, gone = "github.com/rdmaloop/rdmaloop/reactor.(*Loop).turn", "github.com/rdmaloop/rdmaloop/cq.(*Queue).Poll", "hash/crc32.update"
	before := counts{"local-echo": {turn: 100, poll: 50.25, gone: 10, "runtime.memmove": 30, "gogo": 7}}
	path := filepath.Join(t.TempDir(), "base")
	require.NoError(t, before.save(path))
	base, err := load(path)
	require.NoError(t, err)
	require.Equal(t, before, base)

	now := &profile{costs: map[string]float64{turn: 101, poll: 50.25, "runtime.memmove": 32, "gogo": 70}}
	var out strings.Builder
	printHead(&out, true)
	printLine(&out, cases[0], now, base["local-echo"])
	printChanges(&out, base, counts{"local-echo": now.costs})
	require.Equal(t, `case          instructions  mem+map  turns      base   ratio
local-echo           151.2     32.0  0.000     160.2  0.9438  `+cases[0].what+`
local-echo           -10.0  hash/crc32.update
local-echo            +2.0  runtime.memmove
local-echo            +1.0  `+turn+"\n", out.String())
}

func TestLoadErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "base")
	for text, want := range map[string]string{"local-echo 1 f\n": "three fields", "local-echo\tmany\tf\n": "invalid syntax"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := load(path)
		require.ErrorContains(t, err, want)
	}
}
