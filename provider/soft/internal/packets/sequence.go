//go:build linux

package packets

import "github.com/rdmaloop/rdmaloop/internal/psn"

// NearestSeq converts a PSN, which wraps at 24 bits, to a sequence (IBTA vol. 1, 9.7.1).
// Of the possible sequences, it returns the one that is nearest to reference. The
// parameter base is the PSN of sequence 0. NearestSeq returns false if the sequence
// would be negative.
func NearestSeq(v, base psn.Value, reference uint64) (uint64, bool) {
	seq := int64(reference) + int64(v.Sub(PSNOf(base, reference)))
	return uint64(seq), seq >= 0
}

// PSNOf returns the PSN of a sequence.
func PSNOf(base psn.Value, seq uint64) psn.Value { return base.Add(int(seq)) }
