//go:build linux

package timerfd

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
)

// New makes a timer that is not set. Calls that read its descriptor never block. The
// caller owns the descriptor.
func New() (int, error) {
	return unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
}

// Set makes the timer fd expire once, when the given time has passed. If the time is zero
// or negative, the timer expires at once. Set replaces the time of an earlier call, and
// makes fd unreadable until the timer expires. Set fails only if fd is not the descriptor
// of a timer.
func Set(fd int, after time.Duration) error {
	// timerfd_settime(2) stops a timer that is set to zero. So the shortest time is one
	// nanosecond.
	return settime(fd, max(1, after))
}

// Stop stops the timer fd and makes it unreadable. It fails only if fd is not the
// descriptor of a timer.
func Stop(fd int) error { return settime(fd, 0) }

func settime(fd int, after time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(after))}
	return unix.TimerfdSettime(fd, 0, &spec, nil)
}

// Drain makes fd unreadable until the timer expires again. It does nothing if fd is not
// readable. Drain is not needed after a call of Set or Stop, which make fd unreadable
// too.
func Drain(fd int) { eventfd.Drain(fd) }
