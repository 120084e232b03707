package shm

// An Ack is a value of the field Ack of a ControlBlock. It has two positions in the ring
// of the other side, each 32 bits. A position is a number of slots since the beginning.
//
//	consumed | executed << 32
//
// The sender may use the slots before the position consumed again. The requests in slots
// before the position executed were executed, unless a slot of this side says otherwise.
type Ack uint64

// NewAck returns an Ack.
func NewAck(consumed, executed uint32) Ack { return Ack(consumed) | Ack(executed)<<32 }

// Consumed returns the position before which all slots were consumed.
func (a Ack) Consumed() uint32 { return uint32(a) }

// Executed returns the position before which all requests were executed or refused.
func (a Ack) Executed() uint32 { return uint32(a >> 32) }

// A NAK says why a request was not executed. The upper three bits are the kind. The
// lower five bits are a value. It is part of the shared memory layout.
type NAK uint8

const (
	kindRNR     NAK = 1 << 5
	kindFailure NAK = 3 << 5
	nakValue    NAK = 0x1f
)

// RNRNAK returns the NAK for a missing receive buffer. The parameter timer is the code
// of the RNR timer, 0 to 31.
func RNRNAK(timer uint8) NAK { return kindRNR | NAK(timer)&nakValue }

// RNRTimer returns the code of the RNR timer, or false for another NAK.
func (n NAK) RNRTimer() (timer uint8, ok bool) { return uint8(n & nakValue), n&^nakValue == kindRNR }

// A Failure is the reason why a request failed, part of the shared memory layout.
type Failure uint8

const (
	InvalidRequest Failure = iota + 1 // the request was invalid or not allowed
	AccessError                       // the memory was not accessible
	OperationError                    // the responder could not execute the request
)

// FailureNAK returns the NAK for a request that failed for the reason f.
func FailureNAK(f Failure) NAK { return kindFailure | NAK(f) }

// Failure returns the reason why a request failed, or false if the NAK has no known one.
func (n NAK) Failure() (f Failure, ok bool) {
	f = Failure(n & nakValue)
	return f, n&^nakValue == kindFailure && f >= InvalidRequest && f <= OperationError
}
