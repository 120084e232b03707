package shm

// An Ack is the value that one side of a connection stores in the field Ack of its
// ControlBlock. It acknowledges the requests of the other side. It consists of three
// numbers, here with their sizes in bits:
//
//	number of slots consumed (32) | last NAK (8) << 32 | number of NAKs (24) << 40
//
// The NAK is about the first slot that was not consumed. If the number of NAKs is the
// same as in the Ack that was read before, there is no new NAK.
type Ack uint64

// NewAck returns an Ack. The parameter consumed is the number of slots consumed, the
// parameter last is the NAK that was sent last, and the parameter naks is the number of
// NAKs sent. NewAck stores only the low 24 bits of naks.
func NewAck(consumed uint32, last NAK, naks uint32) Ack {
	return Ack(consumed) | Ack(last)<<32 | Ack(naks)<<40
}

// Consumed returns the number of slots consumed since the beginning, modulo 2^32.
func (a Ack) Consumed() uint32 { return uint32(a) }

// NAK returns the NAK that was sent last.
func (a Ack) NAK() NAK { return NAK(a >> 32) }

// NAKs returns the number of NAKs sent, modulo 2^24.
func (a Ack) NAKs() uint32 { return uint32(a >> 40) }

// A NAK says why the request in a slot was not executed. The upper three bits are the
// kind of the NAK, and the lower five bits a value whose meaning depends on the kind. The
// numbers are part of the layout of shared memory.
type NAK uint8

const (
	kindRNR     NAK = 1 << 5
	kindFailure NAK = 3 << 5
	nakValue    NAK = 0x1f
)

// RNRNAK returns the NAK for a request that has found no receive buffer. The parameter
// timer is the code of the RNR timer, from 0 to 31.
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

// FailureNAK returns the NAK for a failed request. The parameter f is the reason of the
// failure.
func FailureNAK(f Failure) NAK { return kindFailure | NAK(f) }

// Failure returns the reason why a request failed. It returns false if the NAK is not for
// a failed request, or has an unknown reason.
func (n NAK) Failure() (f Failure, ok bool) {
	f = Failure(n & nakValue)
	return f, n&^nakValue == kindFailure && f >= InvalidRequest && f <= OperationError
}
