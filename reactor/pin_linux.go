package reactor

import (
	"os"

	"golang.org/x/sys/unix"
)

// pinThread lets the calling thread run on one CPU only, and be woken without
// the 50µs of slack that a sleep has otherwise. See sched_setaffinity(2) and
// PR_SET_TIMERSLACK(2const).
func pinThread(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return os.NewSyscallError("sched_setaffinity", err)
	}
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0))
}
