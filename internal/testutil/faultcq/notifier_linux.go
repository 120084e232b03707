package faultcq

import (
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
)

// A notifier is a descriptor that the package makes readable or unreadable.
type notifier struct {
	fd int
	on bool
}

func newNotifier() (*notifier, error) {
	fd, err := eventfd.New()
	if err != nil {
		return nil, err
	}
	return &notifier{fd: fd}, nil
}

func (n *notifier) set(on bool) {
	if n.on == on {
		return
	}
	n.on = on
	if on {
		eventfd.Signal(n.fd)
	} else {
		eventfd.Drain(n.fd)
	}
}

func (n *notifier) readable() (bool, error) {
	fds := [1]unix.PollFd{{Fd: int32(n.fd), Events: unix.POLLIN}}
	for {
		ready, err := unix.Poll(fds[:], 0)
		if err != unix.EINTR {
			return ready > 0, err
		}
	}
}

func (n *notifier) close() error { return unix.Close(n.fd) }
