package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// Notify reports an asynchronous event of the queue pair to the ID. The only event
// allowed is verbs.AsyncCommEst: a message has arrived before the peer's confirmation of
// Accept, which may be late or lost. Notify takes the place of the confirmation: the
// event Established follows, and a confirmation that arrives later is ignored. A caller
// that has polled such a message may call Notify without having got an asynchronous
// event.
//
// For another asynchronous event the error is a *verbs.ParamError. If the ID is already
// established, even if the event Established is not fetched yet, the error matches
// verbs.ErrState. A caller may ignore that error: the confirmation may have arrived just
// before the call. TCP port space only. Source: rdma_notify(3).
func (id *ID) Notify(event verbs.AsyncEventType) error {
	return id.do(callNotify, func() error {
		if event != verbs.AsyncCommEst {
			return invalid("asynchronous event", int(event), "only AsyncCommEst concerns a connection")
		}
		return id.t.Notify(event)
	})
}
