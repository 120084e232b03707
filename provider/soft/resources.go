//go:build linux

package soft

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// noResources makes an error match verbs.ErrNoResources if the system returned it for
// want of memory, mappings or descriptors: see mmap(2), memfd_create(2),
// socketpair(2) and epoll_ctl(2). Other errors, and nil, stay as they are.
func noResources(err error) error {
	for _, errno := range []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ENOSPC} {
		if errors.Is(err, errno) && !errors.Is(err, verbs.ErrNoResources) {
			return fmt.Errorf("%w: %w", verbs.ErrNoResources, err)
		}
	}
	return err
}
