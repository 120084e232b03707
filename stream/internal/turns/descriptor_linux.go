package turns

import (
	"os"

	"golang.org/x/sys/unix"
)

// duplicate returns a duplicate of fd for which the Go runtime waits with its own poller.
func duplicate(fd int) (*os.File, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	// Without O_NONBLOCK, a wait would occupy a thread (package os, NewFile).
	if err := unix.SetNonblock(dup, true); err != nil {
		unix.Close(dup)
		return nil, err
	}
	return os.NewFile(uintptr(dup), "loop"), nil
}

// readable reports whether fd is readable. The runtime waits for a change to readable, so
// a wait must not begin while fd is readable.
func readable(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return n > 0 || err != nil
}
