//go:build !linux || !amd64

package ccall

import "unsafe"

// A Stack is memory for the stack of C functions. On this system there is none.
type Stack struct{}

// NewStack returns nil.
func NewStack() *Stack { return nil }

// Call panics, because there is no Stack.
func (*Stack) Call(uintptr, unsafe.Pointer, unsafe.Pointer) { panic("ccall: no stack") }
