//go:build linux

package main

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// makeShared makes shared memory in a file. Another process passes the file's name to
// openShared.
func makeShared(message int) (*sharedMemory, error) {
	fd, err := unix.MemfdCreate("rdmaloop-bench", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	name := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	f := os.NewFile(uintptr(fd), name)
	if err := f.Truncate(int64(2 * cellSize(message))); err != nil {
		return nil, err
	}
	return mapShared(f, message)
}

func openShared(name string, message int) (*sharedMemory, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return mapShared(f, message)
}

func mapShared(f *os.File, message int) (*sharedMemory, error) {
	size := cellSize(message)
	memory, err := unix.Mmap(int(f.Fd()), 0, 2*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &sharedMemory{file: f, request: cellAt(memory[:size], message), response: cellAt(memory[size:], message)}, nil
}

// cellAt returns the cell at the beginning of the memory. The cell's counter is aligned:
// the mapping begins at a page boundary, and cellSize is a multiple of 128.
func cellAt(memory []byte, message int) cell {
	count := (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(memory)))
	return cell{count, memory[unsafe.Sizeof(*count):][:message]}
}
