//go:build rdmacore && cgo && linux

package main

// #cgo CFLAGS: -O2 -Wall -Wextra -Werror
// #cgo LDFLAGS: -lrdmacm -libverbs
// #include "stub.h"
// #include "baseline.h"
import "C"

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"syscall"

	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
)

// sharedSize is the size of the shared memory in bytes.
const sharedSize = C.sizeof_struct_shared

// slotBytes is the largest size of a message in bytes.
const slotBytes = C.SLOT_BYTES

// Descriptors that a child inherits.
const (
	memoryFD = 3 + iota
	socketFD
)

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
	if e := C.stub_start(memoryFD, socketFD, C.int(side)); e != 0 {
		return fmt.Errorf("start the stub: %w", syscall.Errno(e))
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
	if s.Step == "provider" {
		return runProvider(p, s, side)
	}
	return runReactor(p, s, side)
}

func runC(s *spec, side int) ([]uint64, error) {
	times := make([]uint64, s.Chunks)
	e := C.baseline(C.int(s.Size), C.int(s.Rounds), C.int(s.Chunks), C.int(side), (*C.uint64_t)(&times[0]))
	if e != 0 {
		return nil, syscall.Errno(e)
	}
	return times, nil
}

// meet tells the peer that this side is ready, and waits until the peer is ready.
func meet() { C.stub_meet() }
