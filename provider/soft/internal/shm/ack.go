package shm

// An Ack tells the other side how many of its slots were handled. It has two positions
// in the ring of the other side. A position is a number of slots since the beginning,
// with 32 bits.
//
//	consumed | executed << 32
//
// The slots before the position consumed are free again. The requests in slots before
// the position executed were executed or refused. Slots in the ring of this side tell
// the other side which requests were refused.
type Ack uint64

// NewAck returns the Ack with the two positions.
func NewAck(consumed, executed uint32) Ack { return Ack(consumed) | Ack(executed)<<32 }

// Consumed returns the position before which all slots are free again.
func (a Ack) Consumed() uint32 { return uint32(a) }

// Executed returns the position before which all requests were executed or refused.
func (a Ack) Executed() uint32 { return uint32(a >> 32) }

// A NAK says why a request was not executed. The upper three bits are the kind of NAK,
// and the lower five bits a value. The numbers are part of the shared memory layout.
type NAK uint8

const (
	kindRNR     NAK = 1 << 5
	kindFailure NAK = 3 << 5
	nakValue    NAK = 0x1f
)

// RNRNAK returns the NAK for a missing receive buffer. The parameter timer is the code
// of the RNR timer, 0 to 31.
func RNRNAK(timer uint8) NAK { return kindRNR | NAK(timer)&nakValue }

// RNRTimer returns the code of the RNR timer. It returns false if n is not an RNR NAK.
func (n NAK) RNRTimer() (timer uint8, ok bool) { return uint8(n & nakValue), n&^nakValue == kindRNR }

// A Failure is the reason why a request failed. The numbers are part of the shared
// memory layout.
type Failure uint8

const (
	InvalidRequest Failure = iota + 1 // the request was invalid or not allowed
	AccessError                       // the memory was not accessible
	OperationError                    // the responder could not execute the request
)

// FailureNAK returns the NAK for a failed request.
func FailureNAK(f Failure) NAK { return kindFailure | NAK(f) }

// Failure returns the Failure that the NAK n reports. It returns false if n does not
// report a known Failure.
func (n NAK) Failure() (f Failure, ok bool) {
	f = Failure(n & nakValue)
	return f, n&^nakValue == kindFailure && f >= InvalidRequest && f <= OperationError
}
