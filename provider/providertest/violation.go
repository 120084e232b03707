package providertest

import "github.com/rdmaloop/rdmaloop/verbs"

// A Violation is a rule that a request violates. Each has a standard outcome (IBTA vol.
// 1, 9.9 and 10.10).
type Violation string

// Violations. The standard outcome is the status at the requester / at the responder.
const (
	// RecvTooShort is a message longer than the receive buffer: remote invalid request /
	// local length error.
	RecvTooShort Violation = "message longer than the receive buffer"
	// RecvInaccessible is a receive buffer with a wrong key, bounds or rights: remote
	// operation error / local protection error.
	RecvInaccessible Violation = "receive buffer not accessible"
	// RemoteAccess is remote memory with a wrong key, bounds or rights: remote access
	// error / flushed.
	RemoteAccess Violation = "remote memory not accessible"
	// WriteImmAccess is a WRITE with immediate to memory with a wrong key, bounds or
	// rights: remote access error / flushed. Some devices consume a receive buffer before
	// they detect the error.
	WriteImmAccess Violation = "remote memory of a WRITE with immediate not accessible"
	// NotEnabled is an operation that the access flags of the responder's queue pair do
	// not allow: remote invalid request / flushed.
	NotEnabled Violation = "operation not enabled on the queue pair"
	// NoResponderResources is a READ or atomic to a queue pair without responder
	// resources: remote invalid request / flushed.
	NoResponderResources Violation = "no responder resources"
	// Misaligned is an atomic on an address that is not a multiple of 8: remote invalid
	// request / flushed.
	Misaligned Violation = "misaligned atomic"
	// LocalProtection is local memory with a wrong key, bounds or rights: local
	// protection error / nothing.
	LocalProtection Violation = "local memory not accessible"
	// PayloadKey is a SEND or WRITE whose SGE has a wrong local key: local protection
	// error / nothing. It is separate from LocalProtection, because some devices treat a
	// wrong key differently from wrong bounds and rights.
	PayloadKey Violation = "local key of a payload"
)

// An Outcome is the result of a request that violates a rule.
type Outcome struct {
	// Requester is the status of the request. The requests after it are flushed.
	Requester verbs.Status
	// Responder is the status of the oldest receive buffer at the other end; the buffers
	// after it are flushed. StatusWRFlushErr means that the request consumed no buffer,
	// StatusSuccess that the other end is not affected.
	Responder verbs.Status
	// Refused means that posting the request fails, and that there are no completions.
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
