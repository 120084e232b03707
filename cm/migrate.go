package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// Migrate moves the ID, with its events that were not fetched, to another
// channel of the same transport. It returns ErrBusy while events of the ID are
// not acknowledged (the ConnectRequest that brought it is the listener's), and
// verbs.ErrForeign when the transports differ. Source: rdma_migrate_id(3),
// which waits instead of ErrBusy.
func (id *ID) Migrate(to *EventChannel) error {
	from := id.Channel()
	// No event may be between the old channel and the ID meanwhile.
	from.fetch.Lock()
	defer from.fetch.Unlock()
	return id.do(callMigrate, func() error {
		switch {
		case to == nil:
			return invalid("channel", 0, "missing")
		case id.unacked > 0, id.channel != from: // the latter: another Migrate was quicker
			return verbs.ErrBusy
		case to == from:
			return nil
		case to.transport != from.transport:
			return verbs.ErrForeign
		}
		// First adopted, so that no event arrives at to before it knows the ID.
		if err := to.adopt(id); err != nil {
			return err
		}
		if err := id.t.Migrate(to.t); err != nil {
			to.forget(id)
			return err
		}
		from.forget(id)
		id.channel = to
		return nil
	})
}
