//go:build linux

package soft

import "github.com/rdmaloop/rdmaloop/internal/psn"

// nearestSeq converts the PSN v to a sequence. PSNs have 24 bits and wrap (IBTA vol. 1,
// 9.7.1), so many sequences have this PSN. nearestSeq selects the sequence that is
// closest to the parameter reference. If the selected sequence is negative, nearestSeq
// returns false. The parameter base is the PSN of sequence 0.
func nearestSeq(v, base psn.Value, reference uint64) (uint64, bool) {
	seq := int64(reference) + int64(v.Sub(psnOf(base, reference)))
	return uint64(seq), seq >= 0
}

// psnOf returns the PSN of a sequence.
func psnOf(base psn.Value, seq uint64) psn.Value { return base.Add(int(seq)) }
