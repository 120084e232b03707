//go:build linux

package sim

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// A table is the table of descriptors of a world. The thread of the world has one of its
// own in the kernel, so no other thread opens or closes descriptors in it, and all that were
// opened can be closed. The thread ends with the goroutine that has made the world.
type table struct {
	base     []bool // descriptors that were open when the world was made, by number
	freeMain func() // see lockThread
}

// newTable gives the calling thread its own table, and locks the goroutine to the thread.
func newTable() *table {
	startNetpoll()
	t := &table{freeMain: lockThread()}
	if err := unix.Unshare(unix.CLONE_FILES); err != nil {
		panic(fmt.Sprintf("sim: the thread gets no descriptors of its own (unshare(2), CLONE_FILES): %v", err))
	}
	t.scan(func(fd int) {
		t.base = append(t.base, make([]bool, fd+1-len(t.base))...)
		t.base[fd] = true
	})
	return t
}

// startNetpoll makes the runtime open the descriptors of its network poller, which it keeps
// for good. All threads use them, so they must not be opened in the table of a world.
func startNetpoll() {
	r, w, err := os.Pipe()
	if err != nil {
		return // The runtime has no descriptors to open either.
	}
	_, _ = r.Close(), w.Close()
}

// lockThread locks the calling goroutine to a thread, but not to the main thread, which it
// occupies until the result is called. The main thread does not end with a goroutine, so it
// would keep its table, and /proc/self/fd is the table of the main thread.
func lockThread() (free func()) {
	end := make(chan struct{})
	for runtime.LockOSThread(); isMainThread(); runtime.LockOSThread() {
		runtime.UnlockOSThread()
		begun := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			close(begun)
			if isMainThread() {
				<-end
			}
		}()
		<-begun
	}
	return func() { close(end) }
}

func isMainThread() bool { return unix.Gettid() == unix.Getpid() }

// scan calls fn for each open descriptor, in ascending order.
func (t *table) scan(fn func(fd int)) {
	// No number is skipped for long, because the kernel uses the lowest free one.
	const batch = 64
	for first, found := 0, true; found; first += batch {
		var polled []unix.PollFd
		for fd := first; fd < first+batch; fd++ {
			polled = append(polled, unix.PollFd{Fd: int32(fd)})
		}
		poll(polled)
		found = false
		for _, p := range polled {
			if p.Revents&unix.POLLNVAL == 0 {
				found = true
				fn(int(p.Fd))
			}
		}
	}
}

func (t *table) isBase(fd int) bool { return fd < len(t.base) && t.base[fd] }

// closeAll closes all descriptors that were opened since newTable.
func (t *table) closeAll() {
	t.scan(func(fd int) {
		if !t.isBase(fd) {
			_ = unix.Close(fd)
		}
	})
	t.freeMain()
}

// limitDescriptors makes the system refuse new descriptors if NoDescriptors is set, until
// restore is called. The limit is that of the program, so other threads must not open
// descriptors meanwhile.
func (p *Process) limitDescriptors() (restore func()) {
	if !p.NoDescriptors {
		return func() {}
	}
	free, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return func() {}
	}
	_ = unix.Close(free)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		panic(fmt.Sprintf("sim: getrlimit(2): %v", err))
	}
	limit := unix.Rlimit{Cur: uint64(free), Max: old.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		panic(fmt.Sprintf("sim: setrlimit(2): %v", err))
	}
	return func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old) }
}
