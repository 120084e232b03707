//go:build linux

package soft

// A respResource is a response resource: a READ or an atomic that was executed. It is
// kept as long as the peer may request its response again.
type respResource struct {
	atomic      bool
	first, last uint64      // sequences of the first and the last response packet
	source      memoryRange // READ: the whole memory that was read
	result      uint64      // atomic: the value before it

	pending bool        // a response is to be sent, or was sent in part
	sent    bool        // the whole response was sent at least once
	start   uint64      // sequence of the first packet of the pending response
	next    uint64      // sequence of the next packet of the pending response
	end     uint64      // sequence of the last packet of the pending response
	unsent  memoryRange // READ: memory of the pending response that was not yet sent
}

// respResources holds the response resources of a connection: the last READs and
// atomics, as many as the peer may have outstanding (IBTA vol. 1, 9.7.4.2). Indexes
// count from the first READ or atomic of the connection and do not wrap.
type respResources struct {
	entries      []respResource
	added        uint64 // resources added so far
	firstPending uint64 // no resource with a smaller index is pending
}

func newRespResources(size int) respResources {
	return respResources{entries: make([]respResource, max(size, 1))}
}

// add adds a pending resource for a new READ or atomic. It replaces the oldest one. The
// peer has the response of that one, because it may not have more outstanding; see full.
func (r *respResources) add() *respResource {
	res := r.at(r.added)
	r.added++
	r.firstPending = max(r.firstPending, r.oldest())
	*res = respResource{pending: true}
	return res
}

// full reports whether the peer has as many READs and atomics outstanding as it may.
// This is so if the response of the oldest resource, which add would replace, was not
// yet sent completely.
func (r *respResources) full() bool {
	return r.added >= uint64(len(r.entries)) && !r.at(r.oldest()).sent
}

// find returns the resource of the READ or atomic that has a sequence, and its index. It
// returns nil if the resource was replaced.
func (r *respResources) find(seq uint64) (res *respResource, index uint64) {
	for i := r.added; i > r.oldest(); i-- {
		if res := r.at(i - 1); res.first <= seq && seq <= res.last {
			return res, i - 1
		}
	}
	return nil, 0
}

// repeatFrom makes the response of a resource pending again, for the sequences start to
// end.
func (r *respResources) repeatFrom(index, start, end uint64) {
	res := r.at(index)
	res.pending, res.start, res.next, res.end = true, start, start, end
	r.firstPending = min(r.firstPending, index)
}

// nextPending returns the oldest resource with a pending response, or nil.
func (r *respResources) nextPending() *respResource {
	for ; r.firstPending < r.added; r.firstPending++ {
		if res := r.at(r.firstPending); res.pending {
			return res
		}
	}
	return nil
}

// oldest returns the index of the oldest resource that is kept.
func (r *respResources) oldest() uint64 { return r.added - min(r.added, uint64(len(r.entries))) }

func (r *respResources) at(i uint64) *respResource { return &r.entries[i%uint64(len(r.entries))] }
