package main

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// makeShared creates shared memory of the given size in bytes. Another process opens it
// by the name of its file.
func makeShared(size int) (*sharedFile, error) {
	fd, err := unix.MemfdCreate("rdmaloop-bench", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	name := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	f := os.NewFile(uintptr(fd), name)
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	return mapShared(f, size)
}

func openShared(name string, size int) (*sharedFile, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return mapShared(f, size)
}

func mapShared(f *os.File, size int) (*sharedFile, error) {
	memory, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &sharedFile{f, memory}, nil
}

// cellAt returns the cell at an offset of the memory, which is a multiple of cellAlign.
func cellAt(memory []byte, offset, message int) cell {
	count := (*atomic.Uint64)(unsafe.Pointer(&memory[offset]))
	return cell{count, memory[offset:][unsafe.Sizeof(*count):][:message]}
}
