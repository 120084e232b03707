//go:build linux

// Package resource recognizes errors that mean a lack of descriptors, memory or
// mappings.
package resource

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Wrap wraps an error that means a lack of memory, mappings or descriptors. The result
// matches verbs.ErrNoResources. Wrap returns other errors unchanged.
func Wrap(err error) error {
	for _, errno := range []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ENOSPC} {
		if errors.Is(err, errno) && !errors.Is(err, verbs.ErrNoResources) {
			return fmt.Errorf("%w: %w", verbs.ErrNoResources, err)
		}
	}
	return err
}

// Retry calls fn. If fn fails because no descriptor is free, Retry calls makeRoom. If
// makeRoom returns true, Retry calls fn once more.
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

// MaxDescriptors returns how many descriptors this process may have open
// (RLIMIT_NOFILE), but at most 1048576.
func MaxDescriptors() int {
	// most is the result for a larger or infinite limit. Arbitrary.
	const most = 1 << 20
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 1024 // the default limit of most systems
	}
	return int(min(limit.Cur, most))
}
