//go:build !amd64 && !arm64

package goroutine

import (
	"bytes"
	"runtime"
	"strconv"
)

// Fast is true if ID takes about a nanosecond, and false if it takes a stack trace.
const Fast = false

// ID returns a number that no other goroutine has while this one exists. It is not 0.
func ID() uintptr {
	var trace [64]byte // It begins with "goroutine 7 [running]:".
	fields := bytes.Fields(trace[:runtime.Stack(trace[:], false)])
	id, _ := strconv.ParseUint(string(fields[1]), 10, strconv.IntSize)
	return uintptr(id)
}
