package fdevent

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A Timer is a descriptor that is readable after a time. It uses CLOCK_MONOTONIC, or the
// Clock of a simulated host. Source: timerfd_create(2).
type Timer struct {
	fd    int
	clock Clock // nil on the real host
}

// NewTimer returns a Timer that is not set. The parameter c is nil on the real host.
func NewTimer(c Clock) (*Timer, error) {
	if c != nil {
		e, err := NewEvent()
		if err != nil {
			return nil, err
		}
		return &Timer{e.FD(), c}, nil
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &Timer{fd: fd}, nil
}

// FD returns the descriptor, which the Timer owns.
func (t *Timer) FD() int { return t.fd }

// Set makes the timer expire once, after the given time. If the time is not positive, the
// timer expires at once. Until it expires, the descriptor is not readable. Set replaces
// an earlier time. It fails only after Close.
func (t *Timer) Set(after time.Duration) error {
	if t.clock != nil {
		t.Drain()
		t.clock.SetTimer(t, after)
		return nil
	}
	// Zero would stop the timer (timerfd_settime(2)).
	return t.settime(max(1, after))
}

// Stop stops the timer and makes it unreadable. It fails only after Close.
func (t *Timer) Stop() error {
	if t.clock != nil {
		t.clock.StopTimer(t)
		t.Drain()
		return nil
	}
	return t.settime(0)
}

// Expire makes the descriptor readable. Only a Clock may call it.
func (t *Timer) Expire() { (&Event{t.fd}).Signal() }

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
	if t.clock != nil {
		t.clock.StopTimer(t)
	}
	return os.NewSyscallError("close", unix.Close(t.fd))
}
