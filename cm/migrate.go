package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// Migrate moves the ID, with its events that were not fetched, to another channel of the
// same transport. While events of the ID are not acknowledged, Migrate returns
// verbs.ErrBusy; a ConnectRequest counts as an event of the listener. If the transports
// differ, Migrate returns verbs.ErrForeign. Source: rdma_migrate_id(3), which waits
// instead of returning ErrBusy.
func (id *ID) Migrate(to *EventChannel) error {
	from := id.Channel()
	// Next must not deliver an event of the ID during the move.
	from.fetch.Lock()
	defer from.fetch.Unlock()
	return id.do(callMigrate, func() error {
		switch {
		case to == nil:
			return invalid("channel", 0, "missing")
		// If id.channel is not the channel from, another call of Migrate has moved the ID
		// before this call has locked it.
		case id.unacked > 0, id.channel != from:
			return verbs.ErrBusy
		case to == from:
			return nil
		case to.transport != from.transport:
			return verbs.ErrForeign
		}
		// The new channel must know the ID before an event of the ID can arrive there.
		if err := to.register(id); err != nil {
			return err
		}
		if err := id.t.Migrate(to.t); err != nil {
			to.unregister(id)
			return err
		}
		from.unregister(id)
		id.channel = to
		return nil
	})
}
