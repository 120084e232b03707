// Package ccall calls C functions that return at once. It is faster than cgo, which is
// made for functions that may wait. On processors other than amd64, NewStack returns
// nil, and the caller uses cgo.
//
// # How a call works
//
// At each call, cgo tells the Go scheduler that the thread leaves Go, and later that it
// has come back. So other goroutines can run while a C function waits. Telling the
// scheduler takes ten times as long as the call itself.
//
// This package only changes to a stack that is large enough for C. The goroutine keeps
// its thread and its processor (P), as in a system call by syscall.RawSyscall.
//
// The package uses no symbol and no field of the Go runtime. The runtime itself calls C
// functions in the same way: to read the clock, it calls a function of the vDSO. So the
// package depends only on properties that the runtime also needs:
//
//   - A signal handler runs on a stack of its own (SA_ONSTACK), so it does not matter
//     where the stack pointer points.
//   - A signal preempts a goroutine only at an instruction of a Go function, and never
//     in assembly. So the goroutine's stack is neither moved nor scanned during a call.
//   - A CPU profile counts the time of the C function as runtime._ExternalCode.
//
// # What a function must not do
//
// A function must not wait without a time limit, because the garbage collector waits for
// it. It must not call Go. It gets 256 KiB of stack; a function that needs more ends the
// process.
package ccall
