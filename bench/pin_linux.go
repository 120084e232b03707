package main

import (
	"errors"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// processors names the two that client and server get: the first two that this
// process may run on; -1, which is any, where there is only one.
func processors() (client, server int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil || set.Count() < 2 {
		return -1, -1
	}
	client = next(&set, 0)
	return client, next(&set, client+1)
}

func next(set *unix.CPUSet, cpu int) int {
	for !set.IsSet(cpu) {
		cpu++
	}
	return cpu
}

// startPinned starts a program all threads of which stay on one processor, and
// whose sleeps end without the 50µs of slack there are otherwise: both are
// inherited from the thread that forks. See sched_setaffinity(2) and
// PR_SET_TIMERSLACK(2const). A negative cpu stands for any.
func startPinned(cmd *exec.Cmd, cpu int) error {
	if cpu < 0 {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	one.Set(cpu)
	err := errors.Join(unix.SchedSetaffinity(0, &one), unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0))
	if err == nil {
		err = cmd.Start()
	}
	const asBefore = 0
	return errors.Join(err, unix.SchedSetaffinity(0, &before), unix.Prctl(unix.PR_SET_TIMERSLACK, asBefore, 0, 0, 0))
}
