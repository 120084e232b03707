package cq

// Stats has the counters of a Group and all its queues, including the closed ones. They
// count from the creation of the group and never decrease.
type Stats struct {
	Polls       uint64 // polls of the device
	EmptyPolls  uint64 // polls that found no completion
	Completions uint64 // completions taken from the device

	Arms          uint64 // requests for an event; a CQ that counts as armed is not armed again
	Events        uint64 // events taken from the channel
	UnaskedEvents uint64 // events of a CQ that was not armed: a duplicate or a late event
	StaleEvents   uint64 // events of a CQ that is closed or unknown
	Acks          uint64 // calls that acknowledged events
	AckedEvents   uint64 // events that were acknowledged
	Rescues       uint64 // events lost by the device or its driver; see Group.Rescued

	Resizes  uint64 // resizes of a CQ for Reserve
	Refusals uint64 // reservations for which there were not enough places
}

// Stats returns the counters. Only the owner may call.
func (g *Group) Stats() Stats { return g.stats }
