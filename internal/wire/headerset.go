package wire

import "math/bits"

// A headerSet is a set of extended headers, one bit for each. The bits are in the order
// in which the headers follow the BTH (IBTA vol. 1, 5.2).
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

// headerSizes are the sizes of the headers in bytes, by bit number. The array is
// constant.
var headerSizes = [8]int{DETHSize, RETHSize, AtomicETHSize, AETHSize, AtomicAckETHSize, ImmDtSize, IETHSize, 16}

// size returns the sum of the sizes of the headers in bytes.
func (s headerSet) size() (n int) {
	for ; s != 0; s &= s - 1 {
		n += headerSizes[bits.TrailingZeros8(uint8(s))]
	}
	return n
}
