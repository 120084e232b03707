package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// processTime returns the processor time of a process, or 0 if it is not known. The clock
// is that of clock_getcpuclockid(3): bit 1 means all threads of the process.
func processTime(pid int) time.Duration {
	var t unix.Timespec
	if pid == 0 || unix.ClockGettime(int32(^pid<<3|2), &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
