//go:build linux

package hostile

import (
	"encoding/binary"
	"math/rand/v2"
)

// Message sizes in bytes. The smallest has room for the seed and the number. The largest
// is the default of reactor.Config.MaxMessage.
const (
	minMessage = 16
	maxMessage = 4096
)

// LongMessage is the length in bytes of the longest message of servers, clients and
// attackers with long messages; see Spec.MaxLongMessage. Arbitrary.
const LongMessage = 256 << 10

// longEvery is how many messages of a client there are for each long one.
const longEvery = 8

// messageOf is message for a client with long messages of up to long bytes. If long is
// not 0, the slice b needs at least that many bytes.
func messageOf(b []byte, seed, n uint64, long int) []byte {
	if long == 0 || n%longEvery != longEvery-1 {
		return message(b, seed, n)
	}
	r := rand.NewPCG(seed, n)
	b = b[:maxMessage+1+int(r.Uint64()%uint64(long-maxMessage))]
	whole := len(b) &^ 7
	for at := 0; at < whole; at += 8 {
		binary.LittleEndian.PutUint64(b[at:], r.Uint64())
	}
	for at := whole; at < len(b); at++ {
		b[at] = byte(at)
	}
	return b
}

// message writes message n into b and returns the part of b that it wrote. The slice b
// needs at least maxMessage bytes.
func message(b []byte, seed, n uint64) []byte {
	r := rand.NewPCG(seed, n)
	size := minMessage + int(r.Uint64()%(maxMessage-minMessage+1))
	if r.Uint64()%2 == 0 {
		// Half of the messages become small: they have at most minMessage+127 bytes.
		size = minMessage + size%128
	}
	b = b[:size]
	binary.LittleEndian.PutUint64(b, seed)
	binary.LittleEndian.PutUint64(b[8:], n)
	// The rest comes from one random number, because more random numbers would take most
	// of the client's time.
	word := r.Uint64()
	for i := minMessage; i < size; i++ {
		b[i] = byte(word >> (i % 8 * 8))
		// The constant is 2^64 divided by the golden ratio. Any large odd number would do.
		word += 0x9e3779b97f4a7c15
	}
	return b
}
