package fdevent

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A Timer is a descriptor that is readable after a time. It uses CLOCK_MONOTONIC. Source:
// timerfd_create(2).
type Timer struct{ fd int }

// NewTimer returns a Timer that is not set.
func NewTimer() (*Timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &Timer{fd}, nil
}

// FD returns the descriptor, which the Timer owns.
func (t *Timer) FD() int { return t.fd }

// Set makes the timer expire once, after the given time. If the time is not positive, the
// timer expires at once. Until it expires, the descriptor is not readable. Set replaces
// an earlier time. It fails only after Close.
func (t *Timer) Set(after time.Duration) error {
	// Zero would stop the timer (timerfd_settime(2)).
	return t.settime(max(1, after))
}

// Stop stops the timer and makes it unreadable. It fails only after Close.
func (t *Timer) Stop() error { return t.settime(0) }

func (t *Timer) settime(after time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(after))}
	return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(t.fd, 0, &spec, nil))
}

// Drain makes the descriptor unreadable until the timer expires again. If the descriptor
// is not readable, Drain does nothing. After Set or Stop, it is not needed.
func (t *Timer) Drain() { drain(t.fd) }

// Close closes the descriptor. No method may be called afterwards, except FD.
func (t *Timer) Close() error {
	if t == nil {
		return nil
	}
	return os.NewSyscallError("close", unix.Close(t.fd))
}
