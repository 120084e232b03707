//go:build !linux

package poller

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

type epoll struct{ fd int }

// errUnsupported returns an error that names the operating system.
func errUnsupported() error {
	return fmt.Errorf("poller: %w on %s", errors.ErrUnsupported, runtime.GOOS)
}

func (*epoll) open(int) error { return errUnsupported() }

func (*epoll) close() error { return errUnsupported() }

func (*epoll) add(int, Interest, Token) error { return errUnsupported() }

func (*epoll) modify(int, Interest, Token) error { return errUnsupported() }

func (*epoll) remove(int) error { return errUnsupported() }

func (*epoll) wait(time.Duration) (int, error) { return 0, errUnsupported() }

func (*epoll) token(int) Token { return 0 }

func (*epoll) ready(int) Readiness { return 0 }

func (*epoll) copy(int, int) {}
