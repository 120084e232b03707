//go:build cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"errors"
	"unsafe"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// PostSend posts send requests with one call into C. It stops at the first invalid
// request, or when the queue is full.
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
	s.direct = false
	n, err := s.gather(wrs)
	if n > 0 {
		n, err = s.post(n, err)
	}
	if s.binds {
		storeKeys(wrs[:n])
	}
	return n, operr.Wrap("post send", err)
}

// PostRecv posts receive buffers with one call into C. It stops at the first invalid
// request, or when the queue is full.
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
		n, err = r.post(fnPostRecv, q.address(), n, err)
		q.flushLateRecvs()
	}
	return n, operr.Wrap("post receive", err)
}

// PostRecv posts receive buffers with one call into C. It stops at the first invalid
// request, or when the queue is full.
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
		n, err = r.post(fnPostSRQRecv, s.address(), n, err)
	}
	return n, operr.Wrap("post SRQ receive", err)
}

// post posts a batch of n requests. If the device refuses a request, post frees the
// places of this request and of all that follow. It then returns the number of accepted
// requests and an error.
//
// If the device accepts the whole batch, post returns n and the parameter gathered.
// This parameter is the error of the first request after the batch, or nil.
func (s *sendQueue) post(n int, gathered error) (int, error) {
	s.args = postArgs{
		queue:  s.qp.address(),
		reqs:   uintptr(unsafe.Pointer(&s.reqs[0])),
		sges:   uintptr(unsafe.Pointer(unsafe.SliceData(s.sges))),
		inline: uintptr(unsafe.Pointer(unsafe.SliceData(s.inline))),
		n:      int32(n),
	}
	s.call(fnPostSend, unsafe.Pointer(&s.args), nil)
	if s.args.err == 0 {
		return n, gathered
	}
	done := int(s.args.done)
	s.places.returnLast(n - done)
	return done, postError("post send", s.args.err)
}

// post posts a batch of n requests with the C function fn. The parameter queue is the
// address of the queue pair or SRQ. The results are the same as for sendQueue.post.
func (r *recvQueue) post(fn, queue uintptr, n int, gathered error) (int, error) {
	r.args = postArgs{
		queue: queue,
		reqs:  uintptr(unsafe.Pointer(&r.reqs[0])),
		sges:  uintptr(unsafe.Pointer(unsafe.SliceData(r.sges))),
		n:     int32(n),
	}
	r.call(fn, unsafe.Pointer(&r.args), nil)
	if r.args.err == 0 {
		return n, gathered
	}
	for _, req := range r.reqs[r.args.done:] {
		_, place := splitWRID(req.id)
		r.places.settle(place)
	}
	return int(r.args.done), postError("post receive", r.args.err)
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
