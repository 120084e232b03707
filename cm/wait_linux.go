package cm

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
)

// awaitReadable blocks until fd is readable, or until one of the contexts is done. It
// then returns nil. A context ends poll(2) by an eventfd.
func awaitReadable(fd int, contexts ...context.Context) error {
	wake, err := eventfd.New()
	if err != nil {
		return err
	}
	defer unix.Close(wake)
	for _, ctx := range contexts {
		defer signalWhenDone(ctx, wake)()
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != unix.EINTR {
			return pollError(err, fds[0].Revents)
		}
	}
}

// signalWhenDone makes the eventfd wake readable when ctx is done. The caller calls stop
// before it closes the eventfd: after stop the eventfd is not used any more.
func signalWhenDone(ctx context.Context, wake int) (stop func()) {
	signaled := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		eventfd.Signal(wake)
		close(signaled)
	})
	return func() {
		if !cancel() {
			<-signaled
		}
	}
}

// pollError returns the error of poll(2), or an error for a descriptor that will never be
// readable. Without an error the caller would poll again and again.
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
