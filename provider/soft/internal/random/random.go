// Package random returns numbers that a peer can not guess.
package random

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"

	"github.com/rdmaloop/rdmaloop/internal/simhost"
)

// A Source returns random numbers. The numbers of a simulated host follow from the seed of
// its simulation. Any goroutine may use other Sources, such as the zero value.
type Source struct{ sim simhost.Host }

// From returns the Source of a simulated host, or the zero value if the parameter h is nil.
func From(h simhost.Host) Source { return Source{h} }

// Uint32 returns a random number with 32 bits.
func (s Source) Uint32() uint32 { return uint32(s.Uint64()) }

// IntN returns a random number from 0 to n-1. The parameter n is positive.
func (s Source) IntN(n int) int {
	hi, _ := bits.Mul64(s.Uint64(), uint64(n))
	return int(hi)
}

// Uint64 returns a random number with 64 bits.
func (s Source) Uint64() uint64 {
	if s.sim != nil {
		return s.sim.Random()
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never returns an error.
	return binary.LittleEndian.Uint64(b[:])
}
