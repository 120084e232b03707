//go:build linux

package rcpath

import "github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"

// A respResource is a READ or atomic that was executed. It is kept because the peer may
// request its response again.
type respResource struct {
	atomic bool
	// sequences of the first and the last response packet
	first, last uint64
	source      qp.MemoryRange // for a READ: the memory that was read
	result      uint64         // for an atomic: the value of the memory before the atomic

	pending bool   // true while a part of the response has to be sent
	sent    bool   // true if the whole response was sent at least once
	start   uint64 // sequence of the first packet of the pending response
	next    uint64 // sequence of the next packet of the pending response
	end     uint64 // sequence of the last packet of the pending response
	// for a READ: part of the memory that was not sent yet
	unsent qp.MemoryRange
}

// respResources has the resources of the last READs and atomics (IBTA vol. 1, 9.7.4.2).
// The first resource of a connection has the index 0. Indexes do not wrap.
type respResources struct {
	entries      []respResource
	added        uint64 // number of resources added so far
	firstPending uint64 // no resource with an index below firstPending is pending
}

func newRespResources(size int) respResources {
	return respResources{entries: make([]respResource, max(size, 1))}
}

// add adds a pending resource. If no entry is free, the new resource replaces the oldest
// resource. The caller must have checked with full() that the oldest response was sent.
func (r *respResources) add() *respResource {
	res := r.at(r.added)
	r.added++
	r.firstPending = max(r.firstPending, r.oldest())
	*res = respResource{pending: true}
	return res
}

// full reports whether the peer has reached its limit of outstanding READs and atomics. A
// READ or atomic is outstanding until its whole response was sent.
func (r *respResources) full() bool {
	return r.added >= uint64(len(r.entries)) && !r.at(r.oldest()).sent
}

// find returns the resource whose response has the packet seq, and its index. If there
// is none, find returns nil.
func (r *respResources) find(seq uint64) (res *respResource, index uint64) {
	for i := r.added; i > r.oldest(); i-- {
		if res := r.at(i - 1); res.first <= seq && seq <= res.last {
			return res, i - 1
		}
	}
	return nil, 0
}

// repeatFrom makes the response packets from start to end pending again.
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
