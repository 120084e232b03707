package reactor

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// pinThread makes the calling thread run on one CPU only. It also sets the thread's timer slack
// to 1 ns, and the thread's name. With the default of 50 µs, sleeps would last longer. Source:
// sched_setaffinity(2), PR_SET_TIMERSLACK(2const), proc_pid_comm(5).
func pinThread(cpu int, name string) error {
	var set unix.CPUSet
	set.Set(cpu)
	switch err := unix.SchedSetaffinity(0, &set); {
	case err == unix.EINVAL:
		return &verbs.ParamError{Field: "CPU", Value: int64(cpu), Reason: "this system has no such processor, or the process may not use it"}
	case err != nil:
		return os.NewSyscallError("sched_setaffinity", err)
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	// The kernel cuts a longer name. Without proc(5) the thread keeps its name.
	_ = os.WriteFile("/proc/self/task/"+strconv.Itoa(unix.Gettid())+"/comm", []byte(name), 0)
	return nil
}

// ConfineRuntime keeps the threads of this process on the given processors, so that the
// garbage collector, the monitor of the Go runtime and other goroutines do not run on the
// processors of busy loops. Give it all processors of the program except those in
// Config.CPUs.
//
// Afterwards each thread may run only on those of its former processors that are also in
// cpus. If a thread has no processor in cpus, ConfineRuntime does not change the thread.
// This is the case for the thread of a loop that is pinned to one of Config.CPUs.
// Therefore ConfineRuntime can be called before or after Engine.Start, and more than
// once. A thread that the runtime starts later inherits its processors from a thread that
// is not locked to a goroutine, so the new thread is confined too.
//
// The parameter cpus has numbers from 0 to 1023. A wrong number, or cpus on which no
// thread of the process may run, cause a *verbs.ParamError. Any goroutine may call
// ConfineRuntime. Source: sched_setaffinity(2), proc_pid_task(5).
func ConfineRuntime(cpus []int) error {
	var allowed unix.CPUSet
	for _, cpu := range cpus {
		if err := operr.CheckRange("cpus", cpu, 0, maxCPU); err != nil {
			return operr.Wrap("confine runtime", err)
		}
		allowed.Set(cpu)
	}
	// While the threads are listed, an unconfined thread can start another one. So the
	// list is read again until no thread must be changed.
	for {
		inside, changed, err := confineThreads(&allowed)
		switch {
		case err != nil:
			return operr.Wrap("confine runtime", err)
		case changed > 0:
		case inside == 0:
			return operr.Wrap("confine runtime", &verbs.ParamError{Field: "cpus", Value: int64(len(cpus)), Reason: "the process may run on none of them"})
		default:
			return nil
		}
	}
}

// confineThreads confines the threads that exist now. It returns the number of threads
// that may run on processors in allowed only, and the number of threads that it changed.
func confineThreads(allowed *unix.CPUSet) (inside, changed int, err error) {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0, 0, err
	}
	for _, entry := range entries {
		tid, err := strconv.Atoi(entry.Name())
		if err != nil {
			return 0, 0, err
		}
		confined, change, err := confineThread(tid, allowed)
		switch {
		case errors.Is(err, unix.ESRCH): // The thread has ended.
		case err != nil:
			return 0, 0, err
		case change:
			changed++
		case confined:
			inside++
		}
	}
	return inside, changed, nil
}

// confineThread forbids a thread the processors that are not in allowed. If the thread
// would have no processor left, confineThread does not change the thread. It reports
// whether the thread is confined now, and whether this call has changed the thread.
func confineThread(tid int, allowed *unix.CPUSet) (confined, changed bool, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(tid, &set); err != nil {
		return false, false, os.NewSyscallError("sched_getaffinity", err)
	}
	both := set
	for i := range both {
		both[i] &= allowed[i]
	}
	if both == set || both.Count() == 0 {
		return both == set, false, nil
	}
	return true, true, os.NewSyscallError("sched_setaffinity", unix.SchedSetaffinity(tid, &both))
}
