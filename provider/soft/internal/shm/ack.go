package shm

// An Ack is a value of ControlBlock.Ack. It acknowledges the requests of the other side:
// number of slots consumed (32) | last NAK (8) << 32 | number of NAKs (24) << 40. The NAK
// belongs to the first slot that was not consumed. A NAK is new if the number of NAKs has
// changed.
type Ack uint64

// NewAck returns an Ack. The parameter consumed is the number of slots consumed, last is
// the NAK that was sent last, and naks is the number of NAKs sent. NewAck stores the
// latter modulo 2^24.
func NewAck(consumed uint32, last NAK, naks uint32) Ack {
	return Ack(consumed) | Ack(last)<<32 | Ack(naks)<<40
}

// Consumed returns the number of slots consumed; it wraps.
func (a Ack) Consumed() uint32 { return uint32(a) }

// NAK returns the last NAK.
func (a Ack) NAK() NAK { return NAK(a >> 32) }

// NAKs returns the number of NAKs, modulo 2^24.
func (a Ack) NAKs() uint32 { return uint32(a >> 40) }

// A NAK says why a slot was not executed: its upper three bits have the kind, its lower
// five bits a value. The numbers are part of the layout of shared memory.
type NAK uint8

const (
	kindRNR     NAK = 1 << 5
	kindFailure NAK = 3 << 5
	nakValue    NAK = 0x1f
)

// RNRNAK returns the NAK for a slot that has found no receive buffer. The argument is the
// code of the RNR timer, from 0 to 31.
func RNRNAK(timer uint8) NAK { return kindRNR | NAK(timer)&nakValue }

// RNRTimer returns the code of the RNR timer. It returns false if the NAK is not an RNR
// NAK.
func (n NAK) RNRTimer() (timer uint8, ok bool) { return uint8(n & nakValue), n&^nakValue == kindRNR }

// A Failure is the reason why a request failed. The numbers are part of the layout of
// shared memory.
type Failure uint8

const (
	InvalidRequest Failure = iota + 1 // the request was invalid or not allowed
	AccessError                       // the memory was not accessible
	OperationError                    // the responder could not execute the request
)

// FailureNAK returns the NAK for a slot whose request failed.
func FailureNAK(f Failure) NAK { return kindFailure | NAK(f) }

// Failure returns the reason why the request failed. It returns false if the NAK is not
// that of a failed request, or has no valid reason.
func (n NAK) Failure() (f Failure, ok bool) {
	f = Failure(n & nakValue)
	return f, n&^nakValue == kindFailure && f >= InvalidRequest && f <= OperationError
}
