package cq

// A Stats has the counters of a Group and of all its queues, including closed ones. They
// begin at 0 and never decrease.
type Stats struct {
	Polls       uint64 // number of polls of the device
	EmptyPolls  uint64 // number of polls that found no completion
	Completions uint64 // number of completions that polls have found

	Arms   uint64 // number of calls that armed a CQ
	Events uint64 // number of events taken from the channel
	// number of events whose CQ did not count as armed, such as duplicates of an event
	UnaskedEvents uint64
	StaleEvents   uint64 // number of events of a CQ that is closed or unknown
	Acks          uint64 // number of calls that acknowledged events
	AckedEvents   uint64 // number of events that were acknowledged
	// number of calls of Group.Rescued; not counted with Config.SolicitedOnly, because
	// then a completion without an event is normal
	Rescues uint64

	Resizes  uint64 // number of CQs that Reserve has resized
	Refusals uint64 // number of reservations that failed for lack of places
}
