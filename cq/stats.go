package cq

// Stats counts what a Group and its queues did, those since closed included.
type Stats struct {
	Polls       uint64 // of the device
	EmptyPolls  uint64 // that found nothing
	Completions uint64 // taken from the device

	Arms          uint64 // of the device; a CQ still armed is not armed again
	Events        uint64 // taken from the channel
	UnaskedEvents uint64 // of a CQ that was not armed: twice, or late
	StaleEvents   uint64 // of a CQ that is closed, or never was
	Acks          uint64 // calls that gave events back
	AckedEvents   uint64 // events given back
	Rescues       uint64 // sleeps past a completion: a fault of the device or its driver

	Resizes  uint64 // of a CQ, to make room
	Refusals uint64 // reservations that found no room
}

// Stats returns the counters.
func (g *Group) Stats() Stats { return g.stats }
