package reactor

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/poller"
)

// An alarm is a timer with a descriptor: it lets an embedded loop, whose waiting
// is done by others, keep its times. See timerfd_create(2).
type timerFD struct {
	fd        int
	wakeCause Cause // why it was set
	buf       [8]byte
}

func newTimerFD() (*timerFD, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &timerFD{fd: fd}, nil
}

// set lets the alarm go off after d, and not at an earlier time set before.
func (a *timerFD) set(d time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(1, d)))} // zero would disarm
	return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(a.fd, 0, &spec, nil))
}

func (a *timerFD) ready(poller.Readiness) (work int) {
	// Nothing to read means that it was set anew meanwhile.
	_, _ = unix.Read(a.fd, a.buf[:])
	return 0
}

func (a *timerFD) cause() Cause { return a.wakeCause }

func (a *timerFD) close() error { return os.NewSyscallError("close", unix.Close(a.fd)) }
