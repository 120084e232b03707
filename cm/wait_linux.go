package cm

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
)

// awaitReadable blocks in poll(2) until fd is readable or one of the contexts is done,
// and returns nil in both cases. Besides fd it polls an eventfd, which becomes readable
// when a context is done.
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

// signalWhenDone makes the eventfd wake readable when ctx is done. The caller calls the
// result stop before it closes the eventfd: when stop has returned, nothing writes to
// the eventfd any more.
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

// pollError returns the error err of poll(2), or an error if the descriptor will never
// be readable. The parameter ready has the descriptor's result of poll(2). Without an
// error for such a descriptor, the caller would poll it again and again.
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
