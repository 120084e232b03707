//go:build rdmacore && cgo && linux

package rdmacore

// #cgo noescape rl_call
// #cgo nocallback rl_call
// #include "shim.h"
import "C"

import (
	"unsafe"

	"github.com/rdmaloop/rdmaloop/provider/rdmacore/internal/ccall"
)

// A postArgs is struct rl_post. The addresses are integers. The memory stays where it is
// during a call: the queue refers to it, and memory of the heap does not move.
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

// A pollArgs is struct rl_poll.
type pollArgs struct {
	cq    uintptr
	wcs   uintptr
	n     int32
	found int32
}

// Addresses of the C functions that return at once.
var (
	fnPostSend    = uintptr(unsafe.Pointer(C.rl_post_send))
	fnPostRecv    = uintptr(unsafe.Pointer(C.rl_post_recv))
	fnPostSRQRecv = uintptr(unsafe.Pointer(C.rl_post_srq_recv))
	fnSendInline  = uintptr(unsafe.Pointer(C.rl_send_inline))
	fnPoll        = uintptr(unsafe.Pointer(C.rl_poll))
)

// A caller calls these functions. Its zero value calls them by way of cgo.
type caller struct {
	// stack belongs to the owner of a CQ with manual progress. Nil means cgo.
	stack *ccall.Stack
}

// call calls fn. The parameter args has the address of its arguments, which are part of a
// queue. The parameter data may be nil.
func (c caller) call(fn uintptr, args unsafe.Pointer, data *byte) {
	if c.stack != nil {
		c.stack.Call(fn, args, unsafe.Pointer(data))
		return
	}
	C.rl_call(C.uintptr_t(fn), C.uintptr_t(uintptr(args)), (*C.uint8_t)(data))
}

// The build fails if the layouts of these structs differ from those in C.
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
