//go:build linux && amd64

package ccall

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stackSize is the size of a stack in bytes. Drivers need a few kilobytes. The dynamic
// linker needs up to 16 KiB when a function is called for the first time. Pages that are
// never used take no memory.
const stackSize = 256 << 10

// aboveTop is the number of zero bytes above the stack. A traceback looks there for the
// return address of call(), finds zero and ends. The stack pointer must stay a multiple
// of 16 (System V ABI, AMD64 supplement, 3.2.2).
const aboveTop = 64

// A Stack is memory for the stack of C functions. Only one goroutine at a time may use
// it. The memory is released when nothing refers to the Stack any more.
type Stack struct{ top uintptr }

// NewStack returns a new Stack, or nil if there is no memory.
func NewStack() *Stack {
	memory, err := unix.Mmap(-1, 0, stackSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_STACK)
	if err != nil {
		return nil
	}
	// Guard page: if a function needs more stack than there is, it causes a fault here.
	if err := unix.Mprotect(memory[:unix.Getpagesize()], unix.PROT_NONE); err != nil {
		_ = unix.Munmap(memory)
		return nil
	}
	s := &Stack{top: uintptr(unsafe.Pointer(unsafe.SliceData(memory))) + stackSize - aboveTop}
	runtime.AddCleanup(s, func(memory []byte) { _ = unix.Munmap(memory) }, memory)
	return s
}

// Call calls the C function at the address fn, which has the type
// void (*)(void *args, const void *data).
func (s *Stack) Call(fn uintptr, args, data unsafe.Pointer) {
	call(fn, args, data, s.top)
	runtime.KeepAlive(s)
}

// call is in call_linux_amd64.s.
//
//go:noescape
func call(fn uintptr, args, data unsafe.Pointer, stack uintptr)
