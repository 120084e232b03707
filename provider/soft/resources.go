//go:build linux

package soft

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// noResources makes an error match verbs.ErrNoResources if it is an errno for a lack
// of memory, mappings or descriptors: see mmap(2), memfd_create(2), socketpair(2) and
// epoll_ctl(2). It returns other errors, and nil, as they are.
func noResources(err error) error {
	for _, errno := range []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ENOSPC} {
		if errors.Is(err, errno) && !errors.Is(err, verbs.ErrNoResources) {
			return fmt.Errorf("%w: %w", verbs.ErrNoResources, err)
		}
	}
	return err
}
