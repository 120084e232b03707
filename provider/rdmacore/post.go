//go:build rdmacore && cgo && linux

package rdmacore

// #cgo noescape rl_post_send
// #cgo nocallback rl_post_send
// #cgo noescape rl_post_recv
// #cgo nocallback rl_post_recv
// #cgo noescape rl_post_srq_recv
// #cgo nocallback rl_post_srq_recv
// #include "shim.h"
import "C"

import (
	"errors"
	"unsafe"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// PostSend posts send requests with one call into C. It stops at the first error or when
// the queue is full.
//
// Implements: ibv_post_send(3).
func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	s := &q.sends
	s.enter()
	defer s.leave()
	if s.closed {
		return 0, operr.Wrap("post send", verbs.ErrClosed)
	}
	if q.lastState() < verbs.StateRTS {
		return 0, operr.Wrap("post send", verbs.ErrState)
	}
	n, err := s.gather(wrs)
	if n > 0 {
		done := C.rl_post_send(q.handle(), (*C.struct_rl_send)(unsafe.Pointer(&s.reqs[0])), C.int(n),
			(*C.struct_ibv_sge)(unsafe.Pointer(unsafe.SliceData(s.sges))),
			(*C.uint8_t)(unsafe.SliceData(s.inline)))
		if done.err != 0 {
			s.places.returnLast(n - int(done.n))
			n, err = int(done.n), postError("post send", int32(done.err))
		}
	}
	return n, operr.Wrap("post send", err)
}

// PostRecv posts receive buffers with one call into C. It stops at the first error or
// when the queue is full.
//
// Implements: ibv_post_recv(3).
func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	r := &q.recvs
	r.enter()
	defer r.leave()
	if r.closed {
		return 0, operr.Wrap("post receive", verbs.ErrClosed)
	}
	if q.srq != nil {
		return 0, operr.Wrap("post receive", &verbs.FeatureError{Feature: "post receive", Reason: errors.New("the queue pair has an SRQ")})
	}
	if q.lastState() == verbs.StateReset {
		return 0, operr.Wrap("post receive", verbs.ErrState)
	}
	n, err := r.gather(wrs)
	if n > 0 {
		n, err = r.posted(n, err, C.rl_post_recv(q.handle(), r.cReqs(), C.int(n), r.cSGEs()))
		q.flushLateRecvs()
	}
	return n, operr.Wrap("post receive", err)
}

// PostRecv posts receive buffers with one call into C. It stops at the first error or
// when the queue is full.
//
// Implements: ibv_post_srq_recv(3).
func (s *srq) PostRecv(wrs []verbs.RecvWR) (int, error) {
	r := &s.recvs
	r.enter()
	defer r.leave()
	if r.closed {
		return 0, operr.Wrap("post SRQ receive", verbs.ErrClosed)
	}
	n, err := r.gather(wrs)
	if n > 0 {
		n, err = r.posted(n, err, C.rl_post_srq_recv(C.uintptr_t(s.address()), r.cReqs(), C.int(n), r.cSGEs()))
	}
	return n, operr.Wrap("post SRQ receive", err)
}

func (r *recvQueue) cReqs() *C.struct_rl_recv {
	return (*C.struct_rl_recv)(unsafe.Pointer(&r.reqs[0]))
}

func (r *recvQueue) cSGEs() *C.struct_ibv_sge {
	return (*C.struct_ibv_sge)(unsafe.Pointer(unsafe.SliceData(r.sges)))
}

// posted handles the result of posting n requests. It frees the places of refused
// requests, and returns the number of accepted requests.
func (r *recvQueue) posted(n int, err error, done C.struct_rl_posted) (int, error) {
	if done.err == 0 {
		return n, err
	}
	for _, req := range r.reqs[done.n:] {
		_, place := splitWRID(req.id)
		r.places.settle(place)
	}
	return int(done.n), postError("post receive", int32(done.err))
}

// Go and C share the structs of queues.go. The build fails if their layouts differ.
const (
	_ = -(unsafe.Sizeof(sendReq{}) ^ C.sizeof_struct_rl_send)
	_ = -(unsafe.Offsetof(sendReq{}.remoteAddr) ^ unsafe.Offsetof(C.struct_rl_send{}.remote_addr))
	_ = -(unsafe.Offsetof(sendReq{}.compareAdd) ^ unsafe.Offsetof(C.struct_rl_send{}.compare_add))
	_ = -(unsafe.Offsetof(sendReq{}.swap) ^ unsafe.Offsetof(C.struct_rl_send{}.swap))
	_ = -(unsafe.Offsetof(sendReq{}.ah) ^ unsafe.Offsetof(C.struct_rl_send{}.ah))
	_ = -(unsafe.Offsetof(sendReq{}.rkey) ^ unsafe.Offsetof(C.struct_rl_send{}.rkey))
	_ = -(unsafe.Offsetof(sendReq{}.imm) ^ unsafe.Offsetof(C.struct_rl_send{}.imm))
	_ = -(unsafe.Offsetof(sendReq{}.qpn) ^ unsafe.Offsetof(C.struct_rl_send{}.remote_qpn))
	_ = -(unsafe.Offsetof(sendReq{}.qkey) ^ unsafe.Offsetof(C.struct_rl_send{}.remote_qkey))
	_ = -(unsafe.Offsetof(sendReq{}.sges) ^ unsafe.Offsetof(C.struct_rl_send{}.sges))
	_ = -(unsafe.Offsetof(sendReq{}.opcode) ^ unsafe.Offsetof(C.struct_rl_send{}.opcode))
	_ = -(unsafe.Offsetof(sendReq{}.flags) ^ unsafe.Offsetof(C.struct_rl_send{}.flags))
	_ = -(unsafe.Sizeof(recvReq{}) ^ C.sizeof_struct_rl_recv)
	_ = -(unsafe.Offsetof(recvReq{}.sges) ^ unsafe.Offsetof(C.struct_rl_recv{}.sges))
)
