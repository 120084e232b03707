package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// used reads what this process has used so far. With tidy it gives memory that
// is not needed back to the system first, so that RSS tells what is.
func used(tidy bool) (u usage, err error) {
	if tidy {
		debug.FreeOSMemory()
	}
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return u, os.NewSyscallError("getrusage", err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.CPU = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	u.Switches = uint64(r.Nvcsw + r.Nivcsw)
	u.Allocs = m.Mallocs
	u.RSS, err = resident()
	return u, err
}

// resident is the memory of the process that is present. See proc_pid_statm(5).
func resident() (bytes int64, err error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0, err
	}
	return pages * int64(os.Getpagesize()), nil
}
