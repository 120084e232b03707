package reactor_test

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// affinities returns the processors on which each thread of the process may run.
func affinities(t *testing.T) map[int]unix.CPUSet {
	entries, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	sets := map[int]unix.CPUSet{}
	for _, entry := range entries {
		tid, err := strconv.Atoi(entry.Name())
		require.NoError(t, err)
		var set unix.CPUSet
		if unix.SchedGetaffinity(tid, &set) == nil {
			sets[tid] = set
		}
	}
	return sets
}

// loopAndOther returns a processor for a loop and another one for the other threads. It
// lets all threads run on all processors, now and when the test ends. The main thread may
// be pinned still: if a pinned loop has run on it, it does not end with the loop, but runs
// nothing any more (runtime/proc.go, mexit).
func loopAndOther(t *testing.T) (loop, other int) {
	var all unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &all))
	var cpus []int
	for cpu := 0; len(cpus) < 2 && cpu < 1024; cpu++ {
		if all.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	if len(cpus) < 2 {
		t.Skip("this process may run on one processor only")
	}
	release := func() {
		for tid := range affinities(t) {
			_ = unix.SchedSetaffinity(tid, &all)
		}
	}
	release()
	t.Cleanup(release)
	return cpus[0], cpus[1]
}

// startThreads makes the runtime start n threads, which block in system calls until
// release is called.
func startThreads(t *testing.T, n int) (release func()) {
	var pipe [2]int
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	var entered, done sync.WaitGroup
	for range n {
		entered.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			entered.Done()
			_, _ = unix.Read(pipe[0], make([]byte, 1)) // A system call that blocks occupies a thread.
		}()
	}
	entered.Wait()
	return func() {
		unix.Close(pipe[1])
		done.Wait()
		unix.Close(pipe[0])
	}
}

// TestConfineRuntime checks that other threads stay away from the processor of a pinned
// loop, even threads that start later.
func TestConfineRuntime(t *testing.T) {
	for name, confineFirst := range map[string]bool{"before the loop starts": true, "after the loop starts": false} {
		t.Run(name, func(t *testing.T) {
			loop, other := loopAndOther(t)
			device, err := soft.Open(nil)
			require.NoError(t, err)
			defer device.Close()
			engine, err := reactor.New(device, reactor.BaseHandler{}, &reactor.Config{Idle: reactor.IdleBusy, CPUs: []int{loop}})
			require.NoError(t, err)
			if confineFirst {
				require.NoError(t, reactor.ConfineRuntime([]int{other}))
			}
			require.NoError(t, engine.Start())
			if !confineFirst {
				require.NoError(t, reactor.ConfineRuntime([]int{other}))
			}
			release := startThreads(t, 20)
			runtime.GC()
			onLoop := 0
			sets := affinities(t)
			for _, set := range sets {
				require.Equal(t, 1, set.Count())
				if set.IsSet(loop) {
					onLoop++
				}
			}
			require.Equal(t, 1, onLoop)
			require.Greater(t, len(sets), 20)
			release()
			require.NoError(t, engine.Shutdown(context.Background()))
		})
	}
}

// TestConfineRuntimeErrors checks that wrong processors cause an error and change
// nothing.
func TestConfineRuntimeErrors(t *testing.T) {
	before := affinities(t)
	var none *verbs.ParamError
	const unlikely = 1023
	for _, cpus := range [][]int{nil, {-1}, {1024}, {unlikely}} {
		require.ErrorAs(t, reactor.ConfineRuntime(cpus), &none, "%v", cpus)
	}
	after := affinities(t)
	for tid := range before {
		if set, running := after[tid]; running {
			require.Equal(t, before[tid], set)
		}
	}
}
