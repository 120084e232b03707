//go:build cgo && linux

package main

import (
	"encoding/json"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"

	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
)

type spec struct {
	Step   string
	Size   int // bytes of a message
	Rounds int // round trips in a chunk
	Chunks int // number of chunks, each of which is timed

	// Interrupted makes both processes call interrupt().
	Interrupted bool
}

// The sides of a measurement. The server starts first.
const (
	server = iota
	client
)

// childArg is the first argument of a child. The side and the spec follow.
const childArg = "child"

// Descriptors that a child inherits.
const (
	memoryFD = 3 + iota
	socketFD
)

// slotBytes is the largest size of a message in bytes: SLOT_BYTES in stub.h.
const slotBytes = 120

// runChild runs one side of a measurement. The client prints the durations of the chunks
// as JSON.
func runChild(args []string) error {
	side, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	var s spec
	if err := json.Unmarshal([]byte(args[1]), &s); err != nil {
		return err
	}
	if err := startStub(side); err != nil {
		return err
	}
	if s.Interrupted {
		if err := interrupt(); err != nil {
			return err
		}
	}
	times, err := runStep(&s, side)
	if err != nil || side == server {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(times)
}

// interrupt disturbs this process until its end: it profiles the process, collects
// garbage and traces all goroutines.
func interrupt() error {
	if err := pprof.StartCPUProfile(io.Discard); err != nil {
		return err
	}
	go func() {
		trace := make([]byte, 1<<16)
		for {
			runtime.GC()
			runtime.Stack(trace, true)
		}
	}()
	return nil
}

func runStep(s *spec, side int) ([]uint64, error) {
	if s.Step == "c" {
		return runC(s, side)
	}
	p, err := rdmacore.Open()
	if err != nil {
		return nil, err
	}
	if s.Step == "provider" || s.Step == "linked" {
		return runProvider(p, s, side)
	}
	return runReactor(p, s, side)
}
