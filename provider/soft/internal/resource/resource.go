//go:build linux

package resource

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Wrap makes an error match verbs.ErrNoResources if it is an errno for a lack of memory,
// mappings or descriptors: see mmap(2), memfd_create(2), socketpair(2) and epoll_ctl(2).
// It returns any other error, and nil, unchanged.
func Wrap(err error) error {
	for _, errno := range []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ENOSPC} {
		if errors.Is(err, errno) && !errors.Is(err, verbs.ErrNoResources) {
			return fmt.Errorf("%w: %w", verbs.ErrNoResources, err)
		}
	}
	return err
}

// Retry calls fn. If fn fails because no descriptor is free, Retry calls makeRoom, which
// closes descriptors if it can. If makeRoom returns true, Retry calls fn a second time.
func Retry(fn func() error, makeRoom func() bool) error {
	err := fn()
	if NoDescriptors(err) && makeRoom() {
		err = fn()
	}
	return err
}

// NoDescriptors reports whether err means that the process (EMFILE) or the system
// (ENFILE) has reached its limit of descriptors.
func NoDescriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}
