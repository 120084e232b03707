// Package pin lets threads and programs run on chosen processors. See sched_setaffinity(2).
package pin

import (
	"errors"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// Thread pins the calling thread to a processor, if the kernel allows that.
func Thread(cpu int) {
	var one unix.CPUSet
	one.Set(cpu)
	_ = unix.SchedSetaffinity(0, &one)
}

// Start starts a program on the given processors, or on any if there are none. A
// pinned program also gets a timer slack of 1 ns (PR_SET_TIMERSLACK(2const)).
func Start(cmd *exec.Cmd, cpus ...int) error {
	if len(cpus) == 0 {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, chosen unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	for _, cpu := range cpus {
		chosen.Set(cpu)
	}
	err := errors.Join(unix.SchedSetaffinity(0, &chosen), unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0))
	if err == nil {
		err = cmd.Start()
	}
	const defaultSlack = 0
	return errors.Join(err, unix.SchedSetaffinity(0, &before), unix.Prctl(unix.PR_SET_TIMERSLACK, defaultSlack, 0, 0, 0))
}
