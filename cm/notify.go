package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// Notify reports that the queue pair has got a message before the peer's confirmation.
// Established follows, and a later confirmation is ignored. TCP port space only. Source:
// rdma_notify(3).
//
// The caller has got the asynchronous event verbs.AsyncCommEst, or has polled the
// completion of the message. In both cases the argument is verbs.AsyncCommEst. With
// another argument the error is a *verbs.ParamError. If the ID is already established,
// the error matches verbs.ErrState, and the caller may ignore the error.
func (id *ID) Notify(event verbs.AsyncEventType) error {
	return id.do(callNotify, func() error {
		if event != verbs.AsyncCommEst {
			return invalid("asynchronous event", int(event), "only AsyncCommEst concerns a connection")
		}
		return id.t.Notify(event)
	})
}
