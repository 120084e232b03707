package cq

// Stats has counters of a Group and all its queues, including closed ones. They begin at
// 0 and never decrease.
type Stats struct {
	Polls       uint64 // number of polls of the device
	EmptyPolls  uint64 // number of polls that found no completion
	Completions uint64 // number of completions that polls have found

	Arms   uint64 // number of calls that armed a CQ
	Events uint64 // number of events taken from the channel
	// number of events of a CQ that was not armed, such as duplicate events
	UnaskedEvents uint64
	StaleEvents   uint64 // number of events of a CQ that was closed or is unknown
	Acks          uint64 // number of calls that acknowledged events
	AckedEvents   uint64 // number of events that were acknowledged
	// Number of calls of Group.Rescued. With Config.SolicitedOnly they are not counted,
	// because then completions without events are normal.
	Rescues uint64

	Resizes  uint64 // number of CQs that were resized
	Refusals uint64 // number of calls of Reserve that failed for lack of places
}
