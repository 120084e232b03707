package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// Migrate moves the ID, with its events that were not fetched, to another channel of the
// same transport. While events of the ID are not acknowledged, Migrate returns
// verbs.ErrBusy; a ConnectRequest counts as an event of the listener. If the transports
// differ, Migrate returns verbs.ErrForeign. Source: rdma_migrate_id(3), which waits
// instead of returning ErrBusy.
func (id *ID) Migrate(to *EventChannel) error {
	oldChannel := id.Channel()
	// Next must not deliver an event of the ID during the move.
	oldChannel.fetch.Lock()
	defer oldChannel.fetch.Unlock()
	return id.do(callMigrate, func() error {
		switch {
		case to == nil:
			return missing("channel")
		// oldChannel was read before this call locked the ID. If id.channel is another
		// channel now, another call of Migrate has moved the ID in the meantime.
		case id.unacked > 0, id.channel != oldChannel:
			return verbs.ErrBusy
		case to == oldChannel:
			return nil
		case to.transport != oldChannel.transport:
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
		oldChannel.unregister(id)
		id.channel = to
		return nil
	})
}
