package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// Notify reports that the queue pair has got a message before the peer's confirmation.
// Established follows, and a later confirmation is ignored. The argument is
// verbs.AsyncCommEst. A caller that has polled such a message needs no asynchronous
// event. TCP port space only. Source: rdma_notify(3).
//
// Another argument is a *verbs.ParamError. If the ID is established, the error matches
// verbs.ErrState, which the caller may ignore.
func (id *ID) Notify(event verbs.AsyncEventType) error {
	return id.do(callNotify, func() error {
		if event != verbs.AsyncCommEst {
			return invalid("asynchronous event", int(event), "only AsyncCommEst concerns a connection")
		}
		return id.t.Notify(event)
	})
}
