package shm

// An Ack is a value of the field Ack of a ControlBlock. It has three numbers, here with
// their sizes in bits:
//
//	number of slots consumed (32) | last NAK (8) << 32 | number of NAKs (24) << 40
//
// The NAK is about the first slot that was not consumed. A new NAK changes the number of
// NAKs.
type Ack uint64

// NewAck returns an Ack. Only the low 24 bits of naks are stored.
func NewAck(consumed uint32, last NAK, naks uint32) Ack {
	return Ack(consumed) | Ack(last)<<32 | Ack(naks)<<40
}

// Consumed returns the number of slots consumed since the beginning, modulo 2^32.
func (a Ack) Consumed() uint32 { return uint32(a) }

// NAK returns the NAK that was sent last.
func (a Ack) NAK() NAK { return NAK(a >> 32) }

// NAKs returns the number of NAKs sent, modulo 2^24.
func (a Ack) NAKs() uint32 { return uint32(a >> 40) }

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
