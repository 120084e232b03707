//go:build linux

package resource

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Wrap makes an errno for a lack of memory, mappings or descriptors match
// verbs.ErrNoResources. It returns other errors unchanged.
func Wrap(err error) error {
	for _, errno := range []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ENOSPC} {
		if errors.Is(err, errno) && !errors.Is(err, verbs.ErrNoResources) {
			return fmt.Errorf("%w: %w", verbs.ErrNoResources, err)
		}
	}
	return err
}

// Retry calls fn. If no descriptor is free, Retry calls makeRoom. If makeRoom returns
// true, Retry calls fn again.
func Retry(fn func() error, makeRoom func() bool) error {
	err := fn()
	if NoDescriptors(err) && makeRoom() {
		err = fn()
	}
	return err
}

// NoDescriptors reports whether the process (EMFILE) or the system (ENFILE) has no free
// descriptor.
func NoDescriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}
