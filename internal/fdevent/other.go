//go:build !linux

package fdevent

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Nothing of this package can be made on this system. The methods below are never called.

// errUnsupported returns an error that names the system call and the operating system.
func errUnsupported(call string) error {
	return fmt.Errorf("%s: %w on %s", call, errors.ErrUnsupported, runtime.GOOS)
}

// Events of epoll_ctl(2).
const (
	In uint32 = 1 << iota
	Out
	Hup
	Err
)

type epoll struct{}

func (*epoll) open(int) error                  { return errUnsupported("epoll_create1") }
func (*epoll) close() error                    { return nil }
func (*epoll) FD() int                         { return -1 }
func (*epoll) Attach(int, uint32) error        { return errUnsupported("epoll_ctl") }
func (*epoll) add(int, uint32, Token) error    { return errUnsupported("epoll_ctl") }
func (*epoll) modify(int, uint32, Token) error { return errUnsupported("epoll_ctl") }
func (*epoll) remove(int) error                { return errUnsupported("epoll_ctl") }
func (*epoll) Token(int) Token                 { return 0 }
func (*epoll) Events(int) uint32               { return 0 }
func (*epoll) Copy(_, _ int)                   {}
func (*epoll) Wait(time.Duration) (int, error) { return 0, errUnsupported("epoll_wait") }

type descriptor struct{}

func (*descriptor) FD() int      { return -1 }
func (*descriptor) Drain()       {}
func (*descriptor) Close() error { return nil }

// An Event is a descriptor that a call makes readable.
type Event struct{ descriptor }

// NewEvent returns an error.
func NewEvent() (*Event, error) { return nil, errUnsupported("eventfd") }

// Signal does nothing.
func (*Event) Signal() {}

// Await does nothing.
func (*Event) Await() {}

// A Timer is a descriptor that is readable after a time.
type Timer struct{ descriptor }

// NewTimer returns an error.
func NewTimer(Clock) (*Timer, error) { return nil, errUnsupported("timerfd_create") }

// Expire does nothing.
func (*Timer) Expire() {}

// Set returns an error.
func (*Timer) Set(time.Duration) error { return errUnsupported("timerfd_settime") }

// Readable returns an error.
func Readable(int, time.Duration, ...context.Context) (bool, error) {
	return false, errUnsupported("poll")
}
