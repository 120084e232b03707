package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// Notify tells the ID of an asynchronous event of its queue pair. Only
// verbs.AsyncCommEst has an effect: a message came in before the peer's
// confirmation of Accept, which may be late or lost. It makes the ID as good as
// confirmed: Established follows, and a confirmation after that is ignored.
// Whoever has polled such a message may say so with it too.
//
// Other events are a *verbs.ParamError. On an ID that is established already the
// error matches verbs.ErrState, also while Established is not fetched yet; that
// does no harm, since the confirmation may always be quicker. TCP only.
// Source: rdma_notify(3).
func (id *ID) Notify(event verbs.AsyncEventType) error {
	return id.do(callNotify, func() error {
		if event != verbs.AsyncCommEst {
			return invalid("asynchronous event", int(event), "only AsyncCommEst concerns a connection")
		}
		return id.t.Notify(event)
	})
}
