package providertest

import "github.com/rdmaloop/rdmaloop/verbs"

// deviationsOf returns the outcomes in which devices of a vendor, DeviceAttr.Vendor, differ from
// the standard, or nil if none are known. Those of rxe are of the driver of Linux 6.1. For memory
// windows, these are the causes in it:
//
//   - It checks an access to a window against the bounds of the region.
//   - It does not compare the queue pair of a window when a key is invalidated.
//   - It acknowledges a SEND with invalidate before it checks whether the key can be
//     invalidated.
//   - When it retransmits requests that were posted before a bind, it executes the bind
//     again.
func deviationsOf(vendor string) map[Violation]Outcome {
	if vendor != rxeVendor {
		return nil
	}
	return map[Violation]Outcome{
		RecvTooShort:     {Requester: verbs.StatusRemOpErr, Responder: verbs.StatusLocQPOpErr},
		RecvInaccessible: {Requester: verbs.StatusRemOpErr, Responder: verbs.StatusLocQPOpErr},
		WriteImmAccess:   {Requester: verbs.StatusRemAccessErr, Responder: verbs.StatusRemAccessErr},
		PayloadKey:       {Requester: verbs.StatusLocQPOpErr},
		Misaligned:       {Refused: true},

		WindowBounds:       {Executed: true},
		LocalOtherQP:       {Executed: true},
		RemoteOtherQP:      {Executed: true},
		RemoteInvalidation: {Responder: verbs.StatusRemInvReqErr},
		BindRepeated:       {Requester: verbs.StatusWRFlushErr},
	}
}

// rxeVendor is the vendor id of rxe.
const rxeVendor = "0xffffff"
