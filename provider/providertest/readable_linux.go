package providertest

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// readable waits until a descriptor has input. It returns false after the time limit.
func readable(fd int, limit time.Duration) (bool, error) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for deadline := time.Now().Add(limit); ; {
		n, err := unix.Poll(fds, int(max(time.Until(deadline), 0).Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return n > 0, err
		}
	}
}
