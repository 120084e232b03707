package wire

import "math/bits"

// A headerSet names extended headers. The bits are in the order in which the
// headers follow the BTH (IBTA vol. 1, 5.2).
type headerSet uint8

const (
	hasDETH headerSet = 1 << iota
	hasRETH
	hasAtomicETH
	hasAETH
	hasAtomicAckETH
	hasImm
	hasIETH
	hasCNP // the 16 reserved bytes of a CNP
)

// headerSizes is indexed by bit number. It is never changed.
var headerSizes = [8]int{DETHSize, RETHSize, AtomicETHSize, AETHSize, AtomicAckETHSize, ImmDtSize, IETHSize, 16}

// size is the sum of the sizes of the headers, in bytes.
func (s headerSet) size() (n int) {
	for ; s != 0; s &= s - 1 {
		n += headerSizes[bits.TrailingZeros8(uint8(s))]
	}
	return n
}
