package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// Migrate moves the ID and its unfetched events to another channel of the same
// transport. A channel of another transport is verbs.ErrForeign. While the ID has
// unacknowledged events, Migrate returns verbs.ErrBusy. Source: rdma_migrate_id(3),
// which waits instead.
func (id *ID) Migrate(to *EventChannel) error {
	oldChannel := id.Channel()
	// Next must not deliver an event of the ID during the move.
	oldChannel.fetch.Lock()
	defer oldChannel.fetch.Unlock()
	return id.do(callMigrate, func() error {
		switch {
		case to == nil:
			return missing("channel")
		// oldChannel was read before the lock. If id.channel has changed, another Migrate
		// has moved the ID.
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
