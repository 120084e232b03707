//go:build cgo && linux

package rdmacore

// #cgo noescape rl_call
// #cgo nocallback rl_call
// #include "shim.h"
import "C"

import (
	"unsafe"

	"github.com/rdmaloop/rdmaloop/provider/rdmacore/internal/ccall"
)

// A postArgs is struct rl_post. Its addresses are integers, which do not keep memory
// alive. The queue also has pointers to the same memory, and Go does not move memory of
// the heap, so the addresses stay valid.
type postArgs struct {
	queue  uintptr
	reqs   uintptr
	sges   uintptr
	inline uintptr
	n      int32
	done   int32
	err    int32
}

// An inlineArgs is struct rl_inline.
type inlineArgs struct {
	qp    uintptr
	id    uint64
	len   uint32
	flags uint32
	err   int32
}

// A pollArgs has the fields of the C structure rl_poll.
type pollArgs struct {
	cq    uintptr
	wcs   uintptr
	n     int32
	found int32
}

// Addresses of C functions that return at once.
var (
	fnPostSend    = uintptr(unsafe.Pointer(C.rl_post_send))
	fnPostRecv    = uintptr(unsafe.Pointer(C.rl_post_recv))
	fnPostSRQRecv = uintptr(unsafe.Pointer(C.rl_post_srq_recv))
	fnSendInline  = uintptr(unsafe.Pointer(C.rl_send_inline))
	fnPoll        = uintptr(unsafe.Pointer(C.rl_poll))
)

// A caller calls C functions that return at once. The zero value uses cgo.
type caller struct {
	// Stack for calls without cgo. If it is nil, calls use cgo. A CQ with manual
	// progress shares its stack with its queues.
	stack *ccall.Stack
}

// call calls the C function at the address fn. args points to the arguments of the
// function, which are part of a queue or CQ. The parameter data may be nil.
func (c caller) call(fn uintptr, args unsafe.Pointer, data *byte) {
	if c.stack != nil {
		c.stack.Call(fn, args, unsafe.Pointer(data))
		return
	}
	C.rl_call(C.uintptr_t(fn), C.uintptr_t(uintptr(args)), (*C.uint8_t)(data))
}

// The build fails if these structs have other layouts in C.
const (
	_ = -(unsafe.Sizeof(postArgs{}) ^ C.sizeof_struct_rl_post)
	_ = -(unsafe.Offsetof(postArgs{}.inline) ^ unsafe.Offsetof(C.struct_rl_post{}.inline_data))
	_ = -(unsafe.Offsetof(postArgs{}.n) ^ unsafe.Offsetof(C.struct_rl_post{}.n))
	_ = -(unsafe.Offsetof(postArgs{}.done) ^ unsafe.Offsetof(C.struct_rl_post{}.done))
	_ = -(unsafe.Offsetof(postArgs{}.err) ^ unsafe.Offsetof(C.struct_rl_post{}.err))
	_ = -(unsafe.Sizeof(inlineArgs{}) ^ C.sizeof_struct_rl_inline)
	_ = -(unsafe.Offsetof(inlineArgs{}.id) ^ unsafe.Offsetof(C.struct_rl_inline{}.id))
	_ = -(unsafe.Offsetof(inlineArgs{}.len) ^ unsafe.Offsetof(C.struct_rl_inline{}.len))
	_ = -(unsafe.Offsetof(inlineArgs{}.flags) ^ unsafe.Offsetof(C.struct_rl_inline{}.flags))
	_ = -(unsafe.Offsetof(inlineArgs{}.err) ^ unsafe.Offsetof(C.struct_rl_inline{}.err))
	_ = -(unsafe.Sizeof(pollArgs{}) ^ C.sizeof_struct_rl_poll)
	_ = -(unsafe.Offsetof(pollArgs{}.wcs) ^ unsafe.Offsetof(C.struct_rl_poll{}.wcs))
	_ = -(unsafe.Offsetof(pollArgs{}.n) ^ unsafe.Offsetof(C.struct_rl_poll{}.n))
	_ = -(unsafe.Offsetof(pollArgs{}.found) ^ unsafe.Offsetof(C.struct_rl_poll{}.found))
)
