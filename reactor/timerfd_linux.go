package reactor

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/timerfd"
	"github.com/rdmaloop/rdmaloop/poller"
)

// A timerFD is a timer with a descriptor (timerfd_create(2)). It ends the application's
// wait on a loop made with NewLoop when a timer is due.
type timerFD struct {
	fd     int
	setFor WakeCause // reason for which the timer was set: WakeByTimer or WakeBySafety
}

// newTimerFD opens a timer that is not set.
func newTimerFD() (*timerFD, error) {
	fd, err := timerfd.New()
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &timerFD{fd: fd}, nil
}

// set makes the timer expire once, after d. It replaces a time that was set before.
func (t *timerFD) set(d time.Duration) error {
	return os.NewSyscallError("timerfd_settime", timerfd.Set(t.fd, d))
}

func (t *timerFD) ready(poller.Readiness) (work int) {
	timerfd.Drain(t.fd)
	return 0
}

func (t *timerFD) wakeCause() WakeCause { return t.setFor }

func (t *timerFD) close() error { return os.NewSyscallError("close", unix.Close(t.fd)) }
