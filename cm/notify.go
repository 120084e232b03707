package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// Notify tells the ID that a message has arrived on its queue pair before the peer's
// confirmation. The message shows that the connection exists, so the event Established
// follows. The late confirmation then has no effect. Source: rdma_notify(3).
//
// Call Notify after the asynchronous event verbs.AsyncCommEst, or after the completion
// of the message. Notify is for the TCP port space only. The argument must be
// verbs.AsyncCommEst. For any other argument, the error is a *verbs.ParamError. If the
// connection is already established, the error matches verbs.ErrState and can be
// ignored.
func (id *ID) Notify(event verbs.AsyncEventType) error {
	return id.do(callNotify, func() error {
		if event != verbs.AsyncCommEst {
			return invalid("asynchronous event", int(event), "only AsyncCommEst concerns a connection")
		}
		return id.t.Notify(event)
	})
}
