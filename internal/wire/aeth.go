package wire

import (
	"fmt"
	"slices"

	"github.com/rdmaloop/rdmaloop/internal/psn"
)

// AETHSize is the length of an AETH in bytes.
const AETHSize = 4

// An AETH is the ACK extended transport header, which acknowledges requests. Source: IBTA
// vol. 1, 9.3 and 9.7.5.
//
//	0   syndrome (8) | MSN (24)
type AETH [AETHSize]byte

// Syndrome returns the responder's answer: an ACK, an RNR NAK or a NAK.
func (h *AETH) Syndrome() Syndrome { return Syndrome(h[0]) }

// MSN returns the message sequence number. The responder counts its completed messages
// with this number, modulo 1<<24.
func (h *AETH) MSN() psn.Value { return psn.Value(uint24(h[1:4])) }

// Set sets all fields.
func (h *AETH) Set(s Syndrome, msn psn.Value) {
	h[0] = byte(s)
	putUint24(h[1:4], uint32(msn))
}

// A Syndrome is a responder's answer to a request. Its top three bits are the kind of the
// answer.
type Syndrome uint8

// A SyndromeKind is a kind of answer. Values without a name are reserved.
type SyndromeKind uint8

// Kinds of answers.
const (
	SyndromeAck    SyndromeKind = 0b000
	SyndromeRNRNAK SyndromeKind = 0b001 // Receiver not ready: the requester must retry after a delay.
	SyndromeNAK    SyndromeKind = 0b011
)

// A NAKCode is the reason of a NAK. The value 4 is for reliable datagrams only, and larger
// ones are reserved.
type NAKCode uint8

// Reasons for which a responder sends a NAK.
const (
	// One or more packets are missing before this one.
	NAKSequence          NAKCode = 0
	NAKInvalidRequest    NAKCode = 1
	NAKRemoteAccess      NAKCode = 2
	NAKRemoteOperational NAKCode = 3
)

// AckNoCredits is the ACK of a responder without end-to-end flow control.
const AckNoCredits Syndrome = noCredits

const (
	codeBits  = 5
	codeMask  = 1<<codeBits - 1
	noCredits = codeMask
)

// Number of credits for each of the 31 codes. Source: IBTA vol. 1, 9.7.7.2.
var creditCounts = [noCredits]uint16{
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
	1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
}

// Ack returns an ACK that grants credits to the requester. Only some numbers of credits
// have a code. Any other number is rounded down.
func Ack(credits int) Syndrome {
	code, exact := slices.BinarySearch(creditCounts[:], uint16(min(max(credits, 0), 1<<15)))
	if !exact {
		code--
	}
	return Syndrome(code)
}

// RNRNAK returns the answer of a responder that has no receive buffer. The timer code, 0
// to 31, tells the requester how long to wait.
func RNRNAK(timer uint8) Syndrome {
	return Syndrome(SyndromeRNRNAK<<codeBits) | Syndrome(timer&codeMask)
}

// NAK returns an answer that rejects the request for the given reason.
func NAK(code NAKCode) Syndrome { return Syndrome(SyndromeNAK<<codeBits) | Syndrome(code&codeMask) }

// Kind returns the kind of the answer.
func (s Syndrome) Kind() SyndromeKind { return SyndromeKind(s >> codeBits) }

// Credits returns the number of credits in an ACK. A request that uses a receive buffer
// needs one credit. For AckNoCredits and all answers except ACKs, ok is false.
func (s Syndrome) Credits() (n int, ok bool) {
	code := s & codeMask
	if s.Kind() != SyndromeAck || code == noCredits {
		return 0, false
	}
	return int(creditCounts[code]), true
}

// RNRTimer returns the timer code of an RNR NAK.
func (s Syndrome) RNRTimer() uint8 { return uint8(s & codeMask) }

// NAKCode returns the reason of a NAK.
func (s Syndrome) NAKCode() NAKCode { return NAKCode(s & codeMask) }

func (s Syndrome) String() string {
	switch s.Kind() {
	case SyndromeAck:
		return "ACK"
	case SyndromeRNRNAK:
		return fmt.Sprintf("RNR NAK, timer code %d", s.RNRTimer())
	case SyndromeNAK:
		return "NAK: " + s.NAKCode().String()
	}
	return fmt.Sprintf("reserved syndrome %#02x", uint8(s))
}

func (c NAKCode) String() string {
	names := [...]string{"PSN sequence error", "invalid request", "remote access error", "remote operational error", "invalid RD request"}
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("reserved code %d", uint8(c))
}
