//go:build rdmacore && cgo && linux

package main

// #cgo CFLAGS: -O2 -Wall -Wextra -Werror
// #cgo LDFLAGS: -lrdmacm -libverbs
// #include "stub.h"
// #include "baseline.h"
import "C"

import (
	"fmt"
	"syscall"
)

// sharedSize is the size of the shared memory in bytes.
const sharedSize = C.sizeof_struct_shared

const _ = -uint(slotBytes ^ C.SLOT_BYTES) // compiles only if they are equal

// startStub starts the stub, to which this build is linked.
func startStub(side int) error {
	if e := C.stub_start(memoryFD, socketFD, C.int(side)); e != 0 {
		return fmt.Errorf("start the stub: %w", syscall.Errno(e))
	}
	return nil
}

// meet tells the peer that this side is ready, and waits until the peer is ready.
func meet() { C.stub_meet() }

func runC(s *spec, side int) ([]uint64, error) {
	times := make([]uint64, s.Chunks)
	e := C.baseline(C.int(s.Size), C.int(s.Rounds), C.int(s.Chunks), C.int(side), (*C.uint64_t)(&times[0]))
	if e != 0 {
		return nil, syscall.Errno(e)
	}
	return times, nil
}
