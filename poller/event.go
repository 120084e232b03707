package poller

import "github.com/rdmaloop/rdmaloop/internal/fdevent"

// Kinds of readiness. The constants are untyped, so they can be an Interest or a
// Readiness. Source: epoll_ctl(2).
const (
	// Readable means that a read would not block. The end of the stream is readable too.
	Readable = 1 << iota
	// Writable means that a write would not block.
	Writable
	// Hangup means that both directions are shut down. It is always reported, and must
	// not be in an Interest.
	Hangup
	// Error means that the descriptor has a pending error. The write end of a pipe is
	// also in this state after its readers have gone. Error is always reported, and must
	// not be in an Interest.
	Error
)

// Interest is what a registration waits for: Readable, Writable, both, or neither.
// Hangup and Error are reported in any case.
type Interest uint8

// events returns the bits of epoll_ctl(2).
func (in Interest) events() (bits uint32) {
	if in&Readable != 0 {
		bits |= fdevent.In
	}
	if in&Writable != 0 {
		bits |= fdevent.Out
	}
	return bits
}

// Readiness is the state of a descriptor: a set of Readable, Writable, Hangup and Error.
type Readiness uint8

// readiness converts the bits of epoll_wait(2).
func readiness(bits uint32) (r Readiness) {
	if bits&fdevent.In != 0 {
		r |= Readable
	}
	if bits&fdevent.Out != 0 {
		r |= Writable
	}
	if bits&fdevent.Hup != 0 {
		r |= Hangup
	}
	if bits&fdevent.Err != 0 {
		r |= Error
	}
	return r
}

// A Token identifies a registration until Remove. It is never zero, and not used again for
// 1<<32 - 2 registrations.
type Token uint64

// An Event reports that a registered descriptor was ready at the time of Wait.
type Event struct {
	Token Token  // identifies the registration, for Modify and Remove
	Data  uint64 // the value that was given to Add, such as an index of the caller's objects
	Ready Readiness
}
