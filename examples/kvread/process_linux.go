package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// processTime returns the processor time of a process, or 0 if it is not known. The id of
// the clock is made as in clock_getcpuclockid(3). The code 2 in its low bits selects the
// processor time of all threads of the process.
func processTime(pid int) time.Duration {
	var t unix.Timespec
	if pid == 0 || unix.ClockGettime(int32(^pid<<3|2), &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
