//go:build linux

package soft

// A kept is a READ or an atomic that was carried out, and its response: it stays
// for as long as the peer may ask for it again.
type kept struct {
	atomic      bool
	first, last uint64       // sequences
	memory      remoteWindow // of a READ, all of it
	result      uint64       // of an atomic

	pending bool         // a response is due, or under way
	sent    bool         // the whole response was sent at least once
	start   uint64       // sequence it starts at
	next    uint64       // sequence of the packet at hand
	end     uint64       // sequence of the last one
	rest    remoteWindow // of a READ, what was not yet sent
}

// keptRing holds the last READs and atomics, as many as the peer may have
// outstanding (IBTA vol. 1, 9.7.4.2). Counters do not wrap.
type keptRing struct {
	entries []kept
	added   uint64
	low     uint64 // nothing before it is pending
}

func newKeptRing(size int) keptRing { return keptRing{entries: make([]kept, max(size, 1))} }

// add makes an entry for a new READ or atomic, whose response is due. It replaces the
// oldest entry. The peer has the response of that one, because it may not have more
// outstanding; see full.
func (r *keptRing) add() *kept {
	k := r.at(r.added)
	r.added++
	r.low = max(r.low, r.oldest())
	*k = kept{pending: true}
	return k
}

// full reports whether the peer has as many READs and atomics outstanding as it may:
// the response of the oldest entry, which add would replace, was not yet sent
// completely.
func (r *keptRing) full() bool {
	return r.added >= uint64(len(r.entries)) && !r.at(r.oldest()).sent
}

// find returns what was carried out at a sequence, or nil when it is forgotten.
func (r *keptRing) find(seq uint64) (k *kept, index uint64) {
	for i := r.added; i > r.oldest(); i-- {
		if k := r.at(i - 1); k.first <= seq && seq <= k.last {
			return k, i - 1
		}
	}
	return nil, 0
}

// again makes a response due from the sequence start to end.
func (r *keptRing) again(index, start, end uint64) {
	k := r.at(index)
	k.pending, k.start, k.next, k.end = true, start, start, end
	r.low = min(r.low, index)
}

// due is the oldest one with a response to be sent, or nil.
func (r *keptRing) due() *kept {
	for ; r.low < r.added; r.low++ {
		if k := r.at(r.low); k.pending {
			return k
		}
	}
	return nil
}

func (r *keptRing) oldest() uint64 { return r.added - min(r.added, uint64(len(r.entries))) }

func (r *keptRing) at(i uint64) *kept { return &r.entries[i%uint64(len(r.entries))] }
