package poller

// Kinds of readiness, for Interest and for Readiness. The constants are untyped so that
// both types can use them. Source: epoll_ctl(2).
const (
	// Readable means that a read would not block, also at the end of the stream.
	Readable = 1 << iota
	// Writable means that a write would not block.
	Writable
	// Hangup means that both directions are shut down. It is always reported and can not
	// be part of an Interest.
	Hangup
	// Error means that the descriptor has a pending error, or is the write end of a pipe
	// without readers. It is always reported, and not allowed in an Interest.
	Error
)

// Interest is the readiness that a registration asks for: Readable, Writable, both, or
// neither. Hangup and Error are reported in all cases.
type Interest uint8

// Readiness is the state of a descriptor in an event: a set of Readable, Writable,
// Hangup and Error.
type Readiness uint8

// A Token names a registration, from Add until Remove. It is never zero and never used
// again.
type Token uint64

// An Event reports that a registered descriptor was ready at the time of Wait.
type Event struct {
	Token Token  // names the registration
	Data  uint64 // the value that the caller of Add passed as data
	Ready Readiness
}
