package main

import (
	"errors"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// processors returns the first two processors on which this process may run. If there is
// only one, both results are -1, for no pinning.
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

// pinThread pins the calling thread to a processor. If the kernel refuses, the thread is
// not pinned.
func pinThread(cpu int) {
	var one unix.CPUSet
	one.Set(cpu)
	_ = unix.SchedSetaffinity(0, &one)
}

// startPinned starts a program on the processor cpu. If cpu is negative, the program is
// not pinned. The timer slack of a pinned program is 1 ns (PR_SET_TIMERSLACK(2const)).
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
	const defaultSlack = 0
	return errors.Join(err, unix.SchedSetaffinity(0, &before), unix.Prctl(unix.PR_SET_TIMERSLACK, defaultSlack, 0, 0, 0))
}
