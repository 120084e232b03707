//go:build linux

package timerfd

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
)

// New returns the descriptor of a stopped timer. Reads never block. The caller must close
// the descriptor.
func New() (int, error) {
	return unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
}

// Set starts the timer fd, which expires once after the given time. If the time is not
// positive, the timer expires at once. Until it expires, fd is not readable. Set replaces
// an earlier time. It fails only if fd is not a timer.
func Set(fd int, after time.Duration) error {
	// Zero would stop the timer (timerfd_settime(2)).
	return settime(fd, max(1, after))
}

// Stop stops the timer fd and makes it unreadable. It fails only if fd is not a timer.
func Stop(fd int) error { return settime(fd, 0) }

func settime(fd int, after time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(after))}
	return unix.TimerfdSettime(fd, 0, &spec, nil)
}

// Drain makes fd unreadable until the timer expires again. If fd is not readable, Drain
// does nothing. After Set or Stop, it is not needed.
func Drain(fd int) { eventfd.Drain(fd) }
