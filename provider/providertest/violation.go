package providertest

import "github.com/rdmaloop/rdmaloop/verbs"

// A Violation is a rule that a request violates. For each rule, the specification demands
// an outcome (IBTA vol. 1, 9.9 and 10.10).
type Violation string

// The violations. Each comment has two statuses with a slash between them: the first is
// that of the request, the second that of the receive buffer at the responder.
const (
	// RecvTooShort: a message is longer than the receive buffer. Remote invalid request /
	// local length error.
	RecvTooShort Violation = "message longer than the receive buffer"
	// RecvInaccessible: a receive buffer has a wrong key, bounds or access rights. Remote
	// operation error / local protection error.
	RecvInaccessible Violation = "receive buffer not accessible"
	// RemoteAccess: a request names remote memory with a wrong key, bounds or access
	// rights. Remote access error / flushed.
	RemoteAccess Violation = "remote memory not accessible"
	// WriteImmAccess: a WRITE with immediate data names memory with a wrong key, bounds
	// or access rights. Remote access error / flushed. Some devices consume a receive
	// buffer before they detect the error.
	WriteImmAccess Violation = "remote memory of a WRITE with immediate not accessible"
	// NotEnabled: the access flags of the responder's queue pair do not allow the
	// operation. Remote invalid request / flushed.
	NotEnabled Violation = "operation not enabled on the queue pair"
	// NoResponderResources: a READ or atomic is sent to a queue pair without responder
	// resources. Remote invalid request / flushed.
	NoResponderResources Violation = "no responder resources"
	// Misaligned: the address of an atomic is not a multiple of 8. Remote invalid request
	// / flushed.
	Misaligned Violation = "misaligned atomic"
	// LocalProtection: an SGE of the request has a wrong key, bounds or access rights.
	// Local protection error / no effect at the responder.
	LocalProtection Violation = "local memory not accessible"
	// PayloadKey: an SGE of a SEND or WRITE has a wrong key. Local protection error / no
	// effect at the responder. It is separate from LocalProtection, because some devices
	// treat a wrong key differently from wrong bounds and rights.
	PayloadKey Violation = "local key of a payload"
)

// An Outcome is the result of a request that violates a rule.
type Outcome struct {
	// Requester is the status of the request. All later requests are flushed.
	Requester verbs.Status
	// Responder is the status of the oldest receive buffer of the responder. All later
	// buffers are flushed. If it is StatusWRFlushErr, the request has consumed no buffer.
	// If it is StatusSuccess, the request has no effect at the responder.
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
