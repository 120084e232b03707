package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock locks the file until the file is closed. Several processes can have a shared lock
// at the same time, but only one process can have a lock that is not shared.
func lock(f *os.File, shared bool) error {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	err := call(f, func(fd int) error { return unix.Flock(fd, how|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrInUse
	}
	return err
}

// inMemory reports whether the file is in a file system without a device. After an error
// it returns false.
func inMemory(f *os.File) bool {
	var s unix.Statfs_t
	err := call(f, func(fd int) error { return unix.Fstatfs(fd, &s) })
	return err == nil && (uint32(s.Type) == unix.TMPFS_MAGIC || uint32(s.Type) == unix.RAMFS_MAGIC)
}

// readNoWait reads if all bytes are in the page cache (preadv2(2), RWF_NOWAIT). It
// returns whether b is filled.
func readNoWait(f *os.File, b []byte, offset int64) bool {
	n := 0
	err := call(f, func(fd int) (err error) {
		n, err = unix.Preadv2(fd, [][]byte{b}, offset, unix.RWF_NOWAIT)
		return err
	})
	return err == nil && n == len(b)
}

// writeNoWait writes into the page cache if that does not wait (pwritev2(2), RWF_NOWAIT).
// It returns whether all of b is stored.
func writeNoWait(f *os.File, b []byte, offset int64) bool {
	n := 0
	err := call(f, func(fd int) (err error) {
		n, err = unix.Pwritev2(fd, [][]byte{b}, offset, unix.RWF_NOWAIT)
		return err
	})
	return err == nil && n == len(b)
}

// flush makes the data of the file durable.
func flush(f *os.File) error { return call(f, unix.Fdatasync) }

// zero makes a part of the file read as zeros.
func zero(f *os.File, offset, n int64) error {
	err := fallocate(f, unix.FALLOC_FL_ZERO_RANGE, offset, n)
	if errors.Is(err, errors.ErrUnsupported) {
		return punch(f, offset, n)
	}
	return err
}

// punch releases the space of a part of the file, which then reads as zeros.
func punch(f *os.File, offset, n int64) error {
	return fallocate(f, unix.FALLOC_FL_PUNCH_HOLE, offset, n)
}

func fallocate(f *os.File, mode uint32, offset, n int64) error {
	return call(f, func(fd int) error {
		return unix.Fallocate(fd, mode|unix.FALLOC_FL_KEEP_SIZE, offset, n)
	})
}

// call calls fn with the descriptor of the file, again if a signal has interrupted it.
func call(f *os.File, fn func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for failed = unix.EINTR; failed == unix.EINTR; {
			failed = fn(int(fd))
		}
	})
	return errors.Join(err, failed)
}
