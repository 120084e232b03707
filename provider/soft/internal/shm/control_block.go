package shm

import "sync/atomic"

// A ControlBlock belongs to one side, which writes it. The other side reads it. The
// field WakeFor is written by both sides.
type ControlBlock struct {
	// Ack acknowledges slots of the other side; see the type Ack.
	Ack atomic.Uint64
	// Refusals is a position in the ring of this side. Slots before this position say
	// which requests were not executed. The other side has to consume them before it
	// uses a new value of Ack.
	Refusals atomic.Uint32
	_        [52]byte

	// These fields rarely change, and the other side reads them often. So they have a
	// cache line of their own.

	// WakeFor is a WakeLevel: for which changes the other side rings this side's
	// doorbell.
	WakeFor atomic.Uint32
	// Left is 1 after this side has closed all its queue pairs and will not use the
	// segment any more.
	Left atomic.Uint32
	// Changes counts the slots with Stopped and Granted that this side has sent or will
	// send. While the other side has not consumed all of them, it executes no requests
	// itself.
	Changes atomic.Uint32
	_       [52]byte
}

// A WakeLevel says for which changes the peer has to ring the doorbell.
type WakeLevel = uint32

const (
	// The peer does not ring the doorbell, because this side polls the ring.
	WakeNone WakeLevel = iota
	// The peer rings the doorbell for each slot.
	WakeSlots
	// The peer rings the doorbell for each slot and each acknowledgement.
	WakeAll
)
