//go:build linux

package soft

// A kept is a READ or an atomic that was carried out, and its response: it stays
// for as long as the peer may ask for it again.
type respResource struct {
	atomic      bool
	first, last uint64      // sequences
	source      memoryRange // of a READ, all of it
	result      uint64      // of an atomic

	pending bool        // a response is due, or under way
	sent    bool        // the whole response was sent at least once
	start   uint64      // sequence it starts at
	next    uint64      // sequence of the packet at hand
	end     uint64      // sequence of the last one
	unsent  memoryRange // of a READ, what was not yet sent
}

// respResources holds the last READs and atomics, as many as the peer may have
// outstanding (IBTA vol. 1, 9.7.4.2). Counters do not wrap.
type respResources struct {
	entries      []respResource
	added        uint64
	firstPending uint64 // nothing before it is pending
}

func newRespResources(size int) respResources {
	return respResources{entries: make([]respResource, max(size, 1))}
}

// add makes an entry for a new READ or atomic, whose response is due. It replaces the
// oldest entry. The peer has the response of that one, because it may not have more
// outstanding; see full.
func (r *respResources) add() *respResource {
	k := r.at(r.added)
	r.added++
	r.firstPending = max(r.firstPending, r.oldest())
	*k = respResource{pending: true}
	return k
}

// full reports whether the peer has as many READs and atomics outstanding as it may:
// the response of the oldest entry, which add would replace, was not yet sent
// completely.
func (r *respResources) full() bool {
	return r.added >= uint64(len(r.entries)) && !r.at(r.oldest()).sent
}

// find returns what was carried out at a sequence, or nil when it is forgotten.
func (r *respResources) find(seq uint64) (k *respResource, index uint64) {
	for i := r.added; i > r.oldest(); i-- {
		if k := r.at(i - 1); k.first <= seq && seq <= k.last {
			return k, i - 1
		}
	}
	return nil, 0
}

// again makes a response due from the sequence start to end.
func (r *respResources) repeatFrom(index, start, end uint64) {
	k := r.at(index)
	k.pending, k.start, k.next, k.end = true, start, start, end
	r.firstPending = min(r.firstPending, index)
}

// due is the oldest one with a response to be sent, or nil.
func (r *respResources) nextPending() *respResource {
	for ; r.firstPending < r.added; r.firstPending++ {
		if k := r.at(r.firstPending); k.pending {
			return k
		}
	}
	return nil
}

func (r *respResources) oldest() uint64 { return r.added - min(r.added, uint64(len(r.entries))) }

func (r *respResources) at(i uint64) *respResource { return &r.entries[i%uint64(len(r.entries))] }
