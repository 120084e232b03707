//go:build rdmacore && cgo && linux

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

// verbsError returns the error for a result of libibverbs: an errno, which may be
// negated, or 0 for success.
func verbsError(op string, code int32) error { return failure(op, code, verbsMeaning) }

// postError returns the error for the result of a call that posts requests.
func postError(op string, code int32) error { return failure(op, code, postMeaning) }

// cmError returns the error for the result of a call of librdmacm.
func cmError(op string, code int32) error { return failure(op, code, cmMeaning) }

// createError returns the error for a call that has returned a nil pointer. err is the
// errno from cgo.
func createError(op string, err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return operr.Wrap(op, errors.New("the library failed without a reason"))
	}
	return failure(op, int32(errno), verbsMeaning)
}

// failure returns nil for the code 0, otherwise an error. The error wraps the errno and,
// unless it is nil, the result of meaning(errno).
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

// postMeaning returns verbs.ErrQueueFull for ENOMEM (ibv_post_send(3)), and for EAGAIN,
// which some devices return instead.
func postMeaning(errno syscall.Errno) error {
	if errno == unix.ENOMEM || errno == unix.EAGAIN {
		return verbs.ErrQueueFull
	}
	return nil
}

// cmMeaning returns the error of package cm for an errno. ENODEV means that no device
// has the address, and EISCONN that the connection is established (rdma_notify(3)).
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
