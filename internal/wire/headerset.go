package wire

import "math/bits"

// A headerSet is a set of extended headers. Each header has one bit. The bits are in the
// order of the headers in a packet. Source: IBTA vol. 1, 5.2.
type headerSet uint8

const (
	hasDETH headerSet = 1 << iota
	hasRETH
	hasAtomicETH
	hasAETH
	hasAtomicAckETH
	hasImm
	hasIETH
	hasCNP // header of a CNP, which has 16 reserved bytes
)

// headerSizes has the sizes of the headers in bytes. The index of a header is the number
// of its bit in a headerSet.
var headerSizes = [8]int{DETHSize, RETHSize, AtomicETHSize, AETHSize, AtomicAckETHSize, ImmDtSize, IETHSize, 16}

// size returns the total length of the headers in bytes.
func (s headerSet) size() (n int) {
	for ; s != 0; s &= s - 1 {
		n += headerSizes[bits.TrailingZeros8(uint8(s))]
	}
	return n
}
