package fdwait

import (
	"context"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
)

// Readable waits until fd is readable, one of the contexts is done, or the timeout has
// passed. A negative timeout means no timeout. The result is true if fd is readable. If
// fd will never be readable, Readable returns an error. Source: poll(2).
func Readable(fd int, timeout time.Duration, contexts ...context.Context) (bool, error) {
	efd, err := eventfd.New()
	if err != nil {
		return false, err
	}
	defer unix.Close(efd)
	for _, ctx := range contexts {
		defer signalWhenDone(ctx, efd)()
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(efd), Events: unix.POLLIN}}
	err = poll(fds, timeout)
	return fds[0].Revents&unix.POLLIN != 0, pollError(err, fds[0].Revents)
}

// poll calls poll(2). After a signal, it continues with the rest of the timeout.
func poll(fds []unix.PollFd, timeout time.Duration) error {
	start, rest := time.Now(), timeout
	for {
		_, err := unix.Poll(fds, milliseconds(rest))
		if err != unix.EINTR {
			return err
		}
		if timeout > 0 {
			rest = max(0, timeout-time.Since(start))
		}
	}
}

// milliseconds converts a timeout to the argument of poll(2) and rounds it up. A negative
// argument means no timeout.
func milliseconds(timeout time.Duration) int {
	if timeout < 0 {
		return -1
	}
	return int(min((timeout+time.Millisecond-1)/time.Millisecond, math.MaxInt32))
}

// signalWhenDone makes the eventfd readable when ctx is done. The caller must call the
// returned function before it closes the eventfd.
func signalWhenDone(ctx context.Context, efd int) func() {
	signaled := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		eventfd.Signal(efd)
		close(signaled)
	})
	return func() {
		if !cancel() {
			<-signaled
		}
	}
}

// pollError returns an error if poll(2) has failed or the descriptor will never be
// readable. The parameter ready has the events that poll(2) reported.
func pollError(err error, ready int16) error {
	switch {
	case err != nil:
		return err
	case ready&unix.POLLNVAL != 0:
		return unix.EBADF
	case ready&(unix.POLLERR|unix.POLLHUP) != 0 && ready&unix.POLLIN == 0:
		return unix.EIO
	}
	return nil
}
