package wire

import "math/bits"

// A headerSet is a set of extended headers, one bit for each. The order of the bits is
// that in a packet (IBTA vol. 1, 5.2).
type headerSet uint8

const (
	hasDETH headerSet = 1 << iota
	hasRETH
	hasAtomicETH
	hasAETH
	hasAtomicAckETH
	hasImm
	hasIETH
	hasCNP // The 16 reserved bytes of a CNP.
)

// headerSizes has the size in bytes of each header, by its bit number in a headerSet.
var headerSizes = [8]int{DETHSize, RETHSize, AtomicETHSize, AETHSize, AtomicAckETHSize, ImmDtSize, IETHSize, 16}

// size returns the length in bytes of all headers in the set together.
func (s headerSet) size() (n int) {
	for ; s != 0; s &= s - 1 {
		n += headerSizes[bits.TrailingZeros8(uint8(s))]
	}
	return n
}
