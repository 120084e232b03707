package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// Notify reports that a message has arrived on the queue pair before the peer's
// confirmation of the connection. The event Established follows, and the confirmation
// has no further effect. TCP port space only. Source: rdma_notify(3).
//
// The caller calls Notify after the asynchronous event verbs.AsyncCommEst, or after the
// completion of the message. The argument must be verbs.AsyncCommEst. Any other argument
// is a *verbs.ParamError. If the connection is already established, the error matches
// verbs.ErrState and can be ignored.
func (id *ID) Notify(event verbs.AsyncEventType) error {
	return id.do(callNotify, func() error {
		if event != verbs.AsyncCommEst {
			return invalid("asynchronous event", int(event), "only AsyncCommEst concerns a connection")
		}
		return id.t.Notify(event)
	})
}
