package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// A usage has the resource counters of a process at one moment.
type usage struct {
	CPU time.Duration `json:"cpu"`
	// Voluntary and involuntary context switches.
	Switches uint64 `json:"switches"`
	// Objects that were allocated on the Go heap.
	Allocs uint64 `json:"allocs"`
	RSS    int64  `json:"rss"` // resident memory in bytes
}

func (u usage) plus(v usage) usage {
	return usage{u.CPU + v.CPU, u.Switches + v.Switches, u.Allocs + v.Allocs, u.RSS + v.RSS}
}

func (u usage) minus(v usage) usage {
	return usage{u.CPU - v.CPU, u.Switches - v.Switches, u.Allocs - v.Allocs, u.RSS - v.RSS}
}

// used returns the resources that this process has used. If freeMemory is true, it first
// returns unused memory to the kernel.
func used(freeMemory bool) (u usage, err error) {
	if freeMemory {
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

// resident returns the resident memory of the process in bytes. See proc_pid_statm(5).
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
