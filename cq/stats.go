package cq

// Stats has counters of a Group and all its queues, including closed ones. They begin at
// 0 and never decrease.
type Stats struct {
	Polls       uint64 // polls of the device
	EmptyPolls  uint64 // polls that found no completion
	Completions uint64 // completions that polls have found

	Arms   uint64 // calls that armed a CQ
	Events uint64 // events taken from the channel
	// events of a CQ that was not armed, such as duplicate events
	UnaskedEvents uint64
	StaleEvents   uint64 // events of a CQ that was closed or is unknown
	Acks          uint64 // calls that acknowledged events
	AckedEvents   uint64 // events that were acknowledged
	// Calls of Group.Rescued. With Config.SolicitedOnly they are not counted, because
	// then completions without events are normal.
	Rescues uint64

	Resizes  uint64 // CQs that were resized
	Refusals uint64 // calls of Reserve that failed for lack of places
}
