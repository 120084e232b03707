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

// longMessage is the size in bytes of the messages of Spec.LongMessages, and of the long
// messages of attackers. Arbitrary.
const longMessage = 256 << 10

// message writes message n into b and returns the part of b that it wrote. The slice b
// has maxMessage bytes, or longMessage bytes for a message that fills it.
func message(b []byte, seed, n uint64) []byte {
	r := rand.NewPCG(seed, n)
	size := minMessage + int(r.Uint64()%(maxMessage-minMessage+1))
	if len(b) == longMessage {
		size = longMessage
	} else if r.Uint64()%2 == 0 {
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
