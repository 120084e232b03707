package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// Migrate moves the ID to another channel of the same transport. Events that were not
// fetched move too. If the channel belongs to another transport, the error is
// verbs.ErrForeign. While the ID has unacknowledged events, the error is verbs.ErrBusy.
// Source: rdma_migrate_id(3), which waits instead.
func (id *ID) Migrate(to *EventChannel) error {
	oldChannel := id.Channel()
	// Next must not deliver an event of the ID meanwhile.
	oldChannel.fetch.Lock()
	defer oldChannel.fetch.Unlock()
	return id.do(callMigrate, func() error {
		switch {
		case to == nil:
			return missing("channel")
		// If the ID has another channel now, another Migrate was faster.
		case id.unacked > 0, id.channel != oldChannel:
			return verbs.ErrBusy
		case to == oldChannel:
			return nil
		case to.transport != oldChannel.transport:
			return verbs.ErrForeign
		}
		// The new channel must know the ID before events arrive there.
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
