package wire

import "math/bits"

// A headerSet is a set of extended headers. Each header has one bit in it. The order of
// the bits is the order in which the headers follow the BTH (IBTA vol. 1, 5.2).
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

// headerSizes has the size of each header in bytes. The index is the number of the
// header's bit in a headerSet. The array is never changed.
var headerSizes = [8]int{DETHSize, RETHSize, AtomicETHSize, AETHSize, AtomicAckETHSize, ImmDtSize, IETHSize, 16}

// size returns the length in bytes of all headers in the set together.
func (s headerSet) size() (n int) {
	for ; s != 0; s &= s - 1 {
		n += headerSizes[bits.TrailingZeros8(uint8(s))]
	}
	return n
}
