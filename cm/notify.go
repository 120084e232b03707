package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// Notify tells the ID that its queue pair has got a message before the peer has confirmed
// the connection. The confirmation may be late or lost. Notify takes its place: the event
// Established follows, and a confirmation that arrives later is ignored. The argument is
// the asynchronous event that reports such a message, verbs.AsyncCommEst. A caller that
// has polled the completion of such a message may call Notify without having got an
// asynchronous event.
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
