//go:build cgo && linux

package rdmacore

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// verbsError converts the result of a function of libibverbs to an error. The result is
// 0 for success, or an errno, which may be negated.
func verbsError(op string, code int32) error { return failure(op, code, verbsMeaning) }

// postError converts the result of a function that posts requests.
func postError(op string, code int32) error { return failure(op, code, postMeaning) }

// cmError converts the result of a function of librdmacm.
func cmError(op string, code int32) error { return failure(op, code, cmMeaning) }

// createError returns the error for a C function that has returned NULL instead of an
// object. err is the errno that cgo has returned.
func createError(op string, err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return operr.Wrap(op, errors.New("the library failed without a reason"))
	}
	return failure(op, int32(errno), verbsMeaning)
}

// failure returns nil if code is 0. Otherwise it returns an error that wraps the errno.
// If meaning() returns an error for the errno, that error is wrapped too.
func failure(op string, code int32, meaning func(syscall.Errno) error) error {
	if code == 0 {
		return nil
	}
	errno := syscall.Errno(max(code, -code))
	if errno == unix.EOPNOTSUPP || errno == unix.ENOSYS {
		return operr.Wrap(op, &verbs.FeatureError{Feature: op, Reason: errno})
	}
	if m := meaning(errno); m != nil {
		return operr.Wrap(op, fmt.Errorf("%w: %w", m, errno))
	}
	return operr.Wrap(op, errno)
}

func verbsMeaning(errno syscall.Errno) error {
	if errno == unix.EBUSY {
		return verbs.ErrBusy
	}
	return nil
}

// postMeaning returns verbs.ErrQueueFull for ENOMEM (ibv_post_send(3)). Some devices
// return EAGAIN instead.
func postMeaning(errno syscall.Errno) error {
	if errno == unix.ENOMEM || errno == unix.EAGAIN {
		return verbs.ErrQueueFull
	}
	return nil
}

// cmMeaning returns the error of package cm for an errno. librdmacm returns ENODEV if no
// device has the address, and EISCONN if the connection is already established
// (rdma_notify(3)).
func cmMeaning(errno syscall.Errno) error {
	switch errno {
	case unix.EADDRINUSE:
		return cm.ErrAddrInUse
	case unix.EADDRNOTAVAIL:
		return cm.ErrAddrNotAvailable
	case unix.ENODEV, unix.ENETUNREACH, unix.EHOSTUNREACH:
		return cm.ErrNoRoute
	case unix.ETIMEDOUT:
		return cm.ErrTimedOut
	case unix.EISCONN:
		return verbs.ErrState
	}
	return nil
}
