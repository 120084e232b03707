// Package ccall calls C functions that return at once, without the work that cgo does for
// functions that may wait. On processors other than amd64, NewStack returns nil, and the
// caller uses cgo.
//
// # How a call works
//
// For a call, cgo tells the Go scheduler that the thread leaves Go and comes back, so
// that other goroutines run while the C function waits. That takes ten times as long as
// the call itself. This package only changes to a stack that is large enough for C. The
// goroutine keeps its thread and its processor (P), as in a system call by
// syscall.RawSyscall.
//
// The method uses no symbol and no field of the Go runtime. It depends on these
// properties, on which the runtime itself depends when it reads the clock: it calls the C
// function of the vDSO in the same way.
//
//   - A signal handler runs on a stack of its own (SA_ONSTACK), so it does not matter
//     where the stack pointer points.
//   - The runtime preempts a goroutine by a signal only at an instruction of a Go
//     function, and never in assembly. So the goroutine's stack is neither moved nor
//     scanned during a call.
//   - In a CPU profile the time of the function counts as runtime._ExternalCode.
//
// # What a function must not do
//
// It must not wait for a time without limit, because the garbage collector waits for it.
// It must not call Go. It gets 256 KiB of stack, and a function that needs more ends the
// process.
package ccall
