package providertest

import "github.com/rdmaloop/rdmaloop/verbs"

// A Violation is a rule that a request violates. For each rule, the specification demands
// an outcome (IBTA vol. 1, 9.9 and 10.10).
type Violation string

// These are the violations. Each comment says which status the request of the requester
// gets, and which status the oldest receive buffer of the responder gets.
const (
	// RecvTooShort: a message is longer than the receive buffer. The request gets "remote
	// invalid request", and the receive buffer gets "local length error".
	RecvTooShort Violation = "message longer than the receive buffer"
	// RecvInaccessible: a receive buffer has a wrong key, bounds or access rights. The
	// request gets "remote operation error", and the receive buffer gets "local
	// protection error".
	RecvInaccessible Violation = "receive buffer not accessible"
	// RemoteAccess: a request names remote memory with a wrong key, bounds or access
	// rights. The request gets "remote access error", and the receive buffer is flushed.
	RemoteAccess Violation = "remote memory not accessible"
	// WriteImmAccess: a WRITE with immediate data names memory with a wrong key, bounds
	// or access rights. The request gets "remote access error", and the receive buffer is
	// flushed. This rule is separate from RemoteAccess, because some devices consume the
	// receive buffer before they detect the error.
	WriteImmAccess Violation = "remote memory of a WRITE with immediate not accessible"
	// NotEnabled: the access flags of the responder's queue pair do not allow the
	// operation. The request gets "remote invalid request", and the receive buffer is
	// flushed.
	NotEnabled Violation = "operation not enabled on the queue pair"
	// NoResponderResources: a READ or atomic is sent to a queue pair without responder
	// resources. The request gets "remote invalid request", and the receive buffer is
	// flushed.
	NoResponderResources Violation = "no responder resources"
	// Misaligned: the address of an atomic is not a multiple of 8. The request gets
	// "remote invalid request", and the receive buffer is flushed.
	Misaligned Violation = "misaligned atomic"
	// LocalProtection: an SGE of the request has a wrong key, bounds or access rights.
	// The request gets "local protection error". The responder does not notice the
	// request.
	LocalProtection Violation = "local memory not accessible"
	// PayloadKey: an SGE of a SEND or WRITE has a wrong key. The request gets "local
	// protection error". The responder does not notice the request. This rule is separate
	// from LocalProtection, because some devices treat a wrong key differently from wrong
	// bounds and rights.
	PayloadKey Violation = "local key of a payload"
)

// An Outcome is the result of a request that violates a rule.
type Outcome struct {
	// Requester is the status of the faulty request. All requests after it are flushed.
	Requester verbs.Status
	// Responder is the status of the oldest receive buffer of the responder. All later
	// buffers are flushed. StatusWRFlushErr means that the request has not consumed a
	// buffer, so the oldest buffer is flushed too. StatusSuccess means that the responder
	// does not notice the request: its buffers are not flushed.
	Responder verbs.Status
	// Refused means that the call that posts the request fails, and that there are no
	// completions.
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

// outcome returns the expected outcome for the device under test.
func (r *rig) outcome(v Violation) Outcome {
	if other, ok := r.opts.Deviations[v]; ok {
		return other
	}
	return v.standard()
}
