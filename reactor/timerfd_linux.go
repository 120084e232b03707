package reactor

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/poller"
)

// A timerFD is a timer with a descriptor: see timerfd_create(2). The application of an
// embedded loop waits for the poller of the loop itself. The timerFD, which the poller
// watches, ends that wait when the first timer of the loop is due.
type timerFD struct {
	fd        int
	wakeCause Cause   // reason for which the timer was set: CauseTimer or CauseSafety
	buf       [8]byte // for the number of expirations that read(2) returns
}

// newTimerFD opens a timer that is not set.
func newTimerFD() (*timerFD, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &timerFD{fd: fd}, nil
}

// set makes the timer expire once, after d. It replaces a time that was set before.
func (t *timerFD) set(d time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(1, d)))} // zero would disarm
	return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(t.fd, 0, &spec, nil))
}

func (t *timerFD) ready(poller.Readiness) (work int) {
	// The read fails with EAGAIN if the timer was set again after it had expired.
	_, _ = unix.Read(t.fd, t.buf[:])
	return 0
}

func (t *timerFD) cause() Cause { return t.wakeCause }

func (t *timerFD) close() error { return os.NewSyscallError("close", unix.Close(t.fd)) }
