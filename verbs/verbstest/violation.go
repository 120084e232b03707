package verbstest

import "github.com/rdmaloop/rdmaloop/verbs"

// A Violation is a way in which a request can be wrong. What each of them leads
// to is the standard outcome, from IBTA vol. 1, 9.9 and 10.10.
type Violation string

// Violations, with their standard outcome as requester / responder.
const (
	// RecvTooShort is a message longer than the receive buffer: remote invalid
	// request / local length error.
	RecvTooShort Violation = "message longer than the receive buffer"
	// RecvInaccessible is a receive buffer whose key, bounds or rights do not
	// hold: remote operation error / local protection error.
	RecvInaccessible Violation = "receive buffer not accessible"
	// RemoteAccess is a remote key, range or right that does not hold: remote
	// access error / flushed.
	RemoteAccess Violation = "remote memory not accessible"
	// WriteImmAccess is the same for a WRITE with immediate, for which some
	// devices have taken a receive buffer by then: remote access error / flushed.
	WriteImmAccess Violation = "remote memory of a WRITE with immediate not accessible"
	// NotEnabled is an operation that the access flags of the responder's queue
	// pair do not allow: remote invalid request / flushed.
	NotEnabled Violation = "operation not enabled on the queue pair"
	// NoResponderResources is a READ or atomic to a queue pair that has none:
	// remote invalid request / flushed.
	NoResponderResources Violation = "no responder resources"
	// Misaligned is an atomic on an address that 8 does not divide: remote
	// invalid request / flushed.
	Misaligned Violation = "misaligned atomic"
	// LocalProtection is a local buffer whose key, bounds or rights do not
	// hold: local protection error / nothing.
	LocalProtection Violation = "local memory not accessible"
	// PayloadKey is the local key of a payload that is sent or written, which
	// some devices tell from bounds and rights: local protection error / nothing.
	PayloadKey Violation = "local key of a payload"
)

// An Outcome is how a request ends that is wrong in some way.
type Outcome struct {
	// Requester is the status of the request. Those behind it are flushed.
	Requester verbs.Status
	// Responder is the status of the oldest receive buffer at the other end;
	// those behind it are flushed. StatusWRFlushErr means that the request took
	// no buffer, StatusSuccess that the other end noticed nothing.
	Responder verbs.Status
	// Refused means that there are no statuses: posting the request fails.
	Refused bool
}

// standard is the outcome that the specification demands.
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

// outcome is what to expect of the device under test.
func (r *rig) outcome(v Violation) Outcome {
	if other, ok := r.opts.Deviations[v]; ok {
		return other
	}
	return v.standard()
}
