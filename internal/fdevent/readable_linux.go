package fdevent

import (
	"context"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Readable waits until fd is readable, one of the contexts is done, or the timeout has
// passed. A negative timeout means no timeout. The result is true if fd is readable. If
// fd will never be readable, Readable returns an error: unix.EBADF or unix.EIO. Any
// goroutine may call it. Source: poll(2).
func Readable(fd int, timeout time.Duration, contexts ...context.Context) (bool, error) {
	done, err := NewEvent()
	if err != nil {
		return false, err
	}
	defer done.Close()
	for _, ctx := range contexts {
		defer signalWhenDone(ctx, done)()
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(done.fd), Events: unix.POLLIN}}
	err = poll(fds, timeout)
	return fds[0].Revents&unix.POLLIN != 0, pollError(err, fds[0].Revents)
}

// await blocks until fd is readable.
func await(fd int) { _ = poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1) }

// longest is the longest timeout of ppoll(2) whose seconds have 32 bits: 68 years.
const longest = math.MaxInt32 * time.Second

// poll calls ppoll(2). After a signal, it continues with the rest of the timeout. A
// negative timeout means no timeout.
func poll(fds []unix.PollFd, timeout time.Duration) error {
	start, rest := time.Now(), min(timeout, longest)
	for {
		var ts *unix.Timespec
		if timeout >= 0 {
			t := unix.NsecToTimespec(int64(rest))
			ts = &t
		}
		_, err := unix.Ppoll(fds, ts, nil)
		if err != unix.EINTR {
			return os.NewSyscallError("poll", err)
		}
		if timeout > 0 {
			rest = max(0, min(timeout, longest)-time.Since(start))
		}
	}
}

// signalWhenDone signals the Event when ctx is done. The caller must call the returned
// function before it closes the Event.
func signalWhenDone(ctx context.Context, done *Event) func() {
	signaled := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		done.Signal()
		close(signaled)
	})
	return func() {
		if !cancel() {
			<-signaled
		}
	}
}

// pollError returns an error if ppoll(2) has failed or the descriptor will never be
// readable. The parameter ready has the events that ppoll(2) reported.
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
