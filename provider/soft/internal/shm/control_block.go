package shm

import "sync/atomic"

// A ControlBlock has the state that one side shows to the other. Only this side writes
// it, except for the field WakeFor, which both sides write.
type ControlBlock struct {
	// Ack says how many slots of the other side were handled; see the type Ack.
	Ack atomic.Uint64
	// Refusals is a position in the ring of this side. Slots before it may report
	// requests that were not executed. The other side consumes these slots before it
	// uses a new value of Ack.
	Refusals atomic.Uint32
	_        [52]byte

	// These fields rarely change, and the other side reads them often. So they have a
	// cache line of their own.

	// WakeFor is a WakeLevel. It says when the other side has to ring the doorbell of
	// this side.
	WakeFor atomic.Uint32
	// Left is 1 if this side has closed all its queue pairs and does not use the segment
	// any more.
	Left atomic.Uint32
	// Changes is the number of slots with the operations Stopped and Granted. It includes
	// slots that still wait for room in the ring. The other side must consume all of
	// these slots before it executes requests itself.
	Changes atomic.Uint32
	_       [52]byte
}

// A WakeLevel says when the peer has to ring the doorbell.
type WakeLevel = uint32

const (
	// WakeNone means that the peer does not ring the doorbell, because this side polls
	// the ring.
	WakeNone WakeLevel = iota
	// WakeSlots means that the peer rings the doorbell for each slot.
	WakeSlots
	// WakeAll means that the peer rings the doorbell for each slot and each
	// acknowledgement.
	WakeAll
)
