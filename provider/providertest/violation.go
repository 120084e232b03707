package providertest

import "github.com/rdmaloop/rdmaloop/verbs"

// A Violation is a rule that a request breaks. For each rule, the specification says what
// must happen. Source: IBTA vol. 1, 9.9 and 10.10.
type Violation string

// The violations. The comments say with which status the request must complete, and what
// must happen to the responder's oldest receive buffer.
const (
	// RecvTooShort means that a message is longer than the receive buffer. The request
	// completes with "remote invalid request", and the buffer with "local length error".
	RecvTooShort Violation = "message longer than the receive buffer"
	// RecvInaccessible means that a receive buffer has a wrong key, bounds or access rights.
	// The request completes with "remote operation error", and the buffer with "local
	// protection error".
	RecvInaccessible Violation = "receive buffer not accessible"
	// RemoteAccess means that a request names remote memory with a wrong key, bounds or
	// access rights. The request completes with "remote access error", and the buffer is
	// flushed.
	RemoteAccess Violation = "remote memory not accessible"
	// WriteImmAccess is a RemoteAccess by a WRITE with immediate data. Some devices consume
	// the receive buffer first.
	WriteImmAccess Violation = "remote memory of a WRITE with immediate not accessible"
	// NotEnabled means that the responder's queue pair does not allow the operation. The
	// request completes with "remote invalid request", and the buffer is flushed.
	NotEnabled Violation = "operation not enabled on the queue pair"
	// NoResponderResources means that a READ or atomic was sent to a queue pair without
	// responder resources. The request completes with "remote invalid request", and the
	// buffer is flushed.
	NoResponderResources Violation = "no responder resources"
	// Misaligned means that the address of an atomic is not a multiple of 8. The request
	// completes with "remote invalid request", and the buffer is flushed.
	Misaligned Violation = "misaligned atomic"
	// LocalProtection means that an SGE of the request has a wrong key, bounds or access
	// rights. The request completes with "local protection error". The responder notices
	// nothing.
	LocalProtection Violation = "local memory not accessible"
	// PayloadKey is a LocalProtection by a SEND or WRITE with a wrong key. Some devices
	// return a different status.
	PayloadKey Violation = "local key of a payload"
	// WindowBounds is a RemoteAccess with the key of a memory window. The request accesses
	// memory outside the window, but inside the memory region of the window.
	WindowBounds Violation = "remote memory beside the window"
	// BindNotAllowed means that a memory window can not be bound; see verbs.MW. The request
	// completes with "memory window bind error". The responder notices nothing.
	BindNotAllowed Violation = "bind not allowed"
	// LocalInvalidation means that a local invalidation names a key, but no memory window
	// with this key is bound to the queue pair. The request completes with "local QP
	// operation error". The responder notices nothing.
	LocalInvalidation Violation = "key not of an own window"
	// RemoteInvalidation means that a SEND with invalidate names a key that is not the key
	// of a memory window of the responder. The request completes with "remote access error",
	// and the buffer with "remote invalid request". Some devices report success for the
	// SEND, and answer no later request.
	RemoteInvalidation Violation = "key not of a window of the responder"
	// LocalOtherQP is a LocalInvalidation of a window that is bound to another queue pair.
	LocalOtherQP Violation = "window of another queue pair"
	// RemoteOtherQP is a RemoteInvalidation of a window that is bound to another queue pair.
	RemoteOtherQP Violation = "window of another queue pair of the responder"
	// BindRepeated means that a device retransmits the request before a bind. This is no
	// violation. But some devices execute the bind a second time. After that, no request of
	// the queue pair completes until the queue pair is moved to ERROR. For such a device,
	// Outcome.Requester is StatusWRFlushErr.
	BindRepeated Violation = "bind after a repeated request"
)

// An Outcome says what happens after a violation.
type Outcome struct {
	// Requester is the status of the faulty request. Later requests are flushed.
	Requester verbs.Status
	// Responder is the status of the responder's oldest receive buffer.
	//
	//   - StatusSuccess: the responder notices nothing. No buffer is flushed.
	//   - StatusWRFlushErr: the request has consumed no buffer. All buffers are flushed.
	//   - Other: the request has consumed the buffer. Later buffers are flushed.
	Responder verbs.Status
	// Refused means that the call that posts the request fails. There are no completions.
	Refused bool
	// Executed means that the device does not notice the violation, and executes the
	// request.
	Executed bool
}

// standard returns the outcome that the specification demands.
func (v Violation) standard() Outcome {
	switch v {
	case RecvTooShort:
		return Outcome{Requester: verbs.StatusRemInvReqErr, Responder: verbs.StatusLocLenErr}
	case RecvInaccessible:
		return Outcome{Requester: verbs.StatusRemOpErr, Responder: verbs.StatusLocProtErr}
	case RemoteAccess, WriteImmAccess, WindowBounds:
		return Outcome{Requester: verbs.StatusRemAccessErr, Responder: verbs.StatusWRFlushErr}
	case BindNotAllowed:
		return Outcome{Requester: verbs.StatusMWBindErr, Responder: verbs.StatusSuccess}
	case BindRepeated:
		return Outcome{Requester: verbs.StatusSuccess}
	case LocalInvalidation, LocalOtherQP:
		return Outcome{Requester: verbs.StatusLocQPOpErr, Responder: verbs.StatusSuccess}
	case RemoteInvalidation, RemoteOtherQP:
		return Outcome{Requester: verbs.StatusRemAccessErr, Responder: verbs.StatusRemInvReqErr}
	case LocalProtection, PayloadKey:
		return Outcome{Requester: verbs.StatusLocProtErr, Responder: verbs.StatusSuccess}
	}
	return Outcome{Requester: verbs.StatusRemInvReqErr, Responder: verbs.StatusWRFlushErr}
}

// outcome returns the expected outcome of the device under test.
func (r *rig) outcome(v Violation) Outcome {
	if other, ok := deviationsOf(r.attr.Vendor)[v]; ok {
		return other
	}
	return v.standard()
}
