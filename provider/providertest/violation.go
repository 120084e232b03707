package providertest

import "github.com/rdmaloop/rdmaloop/verbs"

// A Violation is a rule that a request violates. The specification demands an outcome
// for each rule (IBTA vol. 1, 9.9 and 10.10).
type Violation string

// The violations, with the statuses of the request and of the responder's oldest receive
// buffer.
const (
	// RecvTooShort: a message is longer than the receive buffer. Request: "remote
	// invalid request". Buffer: "local length error".
	RecvTooShort Violation = "message longer than the receive buffer"
	// RecvInaccessible: a receive buffer has a wrong key, bounds or access rights.
	// Request: "remote operation error". Buffer: "local protection error".
	RecvInaccessible Violation = "receive buffer not accessible"
	// RemoteAccess: a request names remote memory with a wrong key, bounds or access
	// rights. Request: "remote access error". Buffer: flushed.
	RemoteAccess Violation = "remote memory not accessible"
	// WriteImmAccess: like RemoteAccess, for a WRITE with immediate data. Some devices
	// consume the buffer first.
	WriteImmAccess Violation = "remote memory of a WRITE with immediate not accessible"
	// NotEnabled: the responder's queue pair does not allow the operation. Request:
	// "remote invalid request". Buffer: flushed.
	NotEnabled Violation = "operation not enabled on the queue pair"
	// NoResponderResources: a READ or atomic meets a queue pair without responder
	// resources. Request: "remote invalid request". Buffer: flushed.
	NoResponderResources Violation = "no responder resources"
	// Misaligned: the address of an atomic is not a multiple of 8. Request: "remote
	// invalid request". Buffer: flushed.
	Misaligned Violation = "misaligned atomic"
	// LocalProtection: an SGE of the request has a wrong key, bounds or access rights.
	// Request: "local protection error". The responder notices nothing.
	LocalProtection Violation = "local memory not accessible"
	// PayloadKey: like LocalProtection, for a wrong key of a SEND or WRITE. Some devices
	// return a different status.
	PayloadKey Violation = "local key of a payload"
)

// An Outcome is the result of a violation.
type Outcome struct {
	// Requester is the status of the faulty request. Later requests are flushed.
	Requester verbs.Status
	// Responder is the status of the responder's oldest receive buffer.
	//
	//   - StatusSuccess: the responder notices nothing, and no buffer is flushed.
	//   - StatusWRFlushErr: the request has consumed no buffer, and all buffers are
	//     flushed.
	//   - Other: the request has consumed the buffer. Later buffers are flushed.
	Responder verbs.Status
	// Refused means that the call that posts the request fails, without completions.
	Refused bool
}

// standard returns the outcome that the specification demands.
func (v Violation) standard() Outcome {
	switch v {
	case RecvTooShort:
		return Outcome{Requester: verbs.StatusRemInvReqErr, Responder: verbs.StatusLocLenErr}
	case RecvInaccessible:
		return Outcome{Requester: verbs.StatusRemOpErr, Responder: verbs.StatusLocProtErr}
	case RemoteAccess, WriteImmAccess:
		return Outcome{Requester: verbs.StatusRemAccessErr, Responder: verbs.StatusWRFlushErr}
	case LocalProtection, PayloadKey:
		return Outcome{Requester: verbs.StatusLocProtErr, Responder: verbs.StatusSuccess}
	}
	return Outcome{Requester: verbs.StatusRemInvReqErr, Responder: verbs.StatusWRFlushErr}
}

// outcome returns the expected outcome of the device under test.
func (r *rig) outcome(v Violation) Outcome {
	if other, ok := r.opts.Deviations[v]; ok {
		return other
	}
	return v.standard()
}
