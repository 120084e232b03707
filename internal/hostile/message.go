//go:build linux

package hostile

import (
	"encoding/binary"
	"math/rand/v2"
)

// Sizes of a client's messages in bytes. The smallest has room for the number of the
// message; the largest is the default of reactor.Config.MaxMessage.
const (
	minMessage = 16
	maxMessage = 4096
)

// message writes message number n of a connection into b, and returns its part of b.
// Size and bytes are pseudo-random, and a function of seed and n. b has room for
// maxMessage bytes.
func message(b []byte, seed, n uint64) []byte {
	r := rand.NewPCG(seed, n)
	size := minMessage + int(r.Uint64()%(maxMessage-minMessage+1))
	if r.Uint64()%2 == 0 {
		size = minMessage + size%128 // half of the messages are small
	}
	b = b[:size]
	binary.LittleEndian.PutUint64(b, seed)
	binary.LittleEndian.PutUint64(b[8:], n)
	// All bytes differ between messages. Calling the generator for each word would be
	// most of the work of a client.
	word := r.Uint64()
	for i := minMessage; i < size; i++ {
		b[i] = byte(word >> (i % 8 * 8))
		word += 0x9e3779b97f4a7c15 // arbitrary: the fraction of the golden ratio, an odd number
	}
	return b
}
