//go:build cgo && linux

package rdmacore

import (
	"sync"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A wr_id has three parts, beginning at the highest bit: a generation (20 bits), an
// index in the registry (20 bits) and a place (24 bits). The first two parts are the tag
// of a queue.
const (
	placeBits  = 24
	indexBits  = 20
	indexShift = placeBits
	genShift   = placeBits + indexBits

	maxPlaces = 1 << placeBits
	maxQueues = 1 << indexBits
	maxGen    = 1 << (64 - genShift)
)

// wrID returns the wr_id for a place on the queue with the given tag.
func wrID(tag uint64, place uint32) uint64 { return tag | uint64(place) }

func splitWRID(id uint64) (tag uint64, place uint32) {
	return id &^ (maxPlaces - 1), uint32(id & (maxPlaces - 1))
}

// A settler is the send queue or receive queue to which a completion belongs.
type settler interface {
	// settle frees the place of a completed request and sets wc.ID to the caller's ID.
	// It returns false if the place is not in use.
	settle(place uint32, wc *verbs.WC) bool
	// failed is called after settle() if the request has failed.
	failed()
}

// A registry finds a queue by its tag. find() takes no lock, even while other goroutines
// add and remove queues.
type registry struct {
	slots atomic.Pointer[[]atomic.Pointer[tagged]]

	mu   sync.Mutex
	free []uint32 // indexes of unused slots
	gens []uint32 // for each slot, the generation of its next tag
}

type tagged struct {
	tag   uint64
	queue settler
}

// add returns a new tag for a queue. It returns false if there are already maxQueues
// queues.
func (r *registry) add(q settler) (tag uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.free) == 0 && !r.grow() {
		return 0, false
	}
	last := len(r.free) - 1
	i := r.free[last]
	r.free = r.free[:last]
	tag = uint64(r.gens[i])<<genShift | uint64(i)<<indexShift
	r.gens[i] = (r.gens[i] + 1) % maxGen
	(*r.slots.Load())[i].Store(&tagged{tag, q})
	return tag, true
}

func (r *registry) remove(tag uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := uint32(tag >> indexShift & (maxQueues - 1))
	(*r.slots.Load())[i].Store(nil)
	r.free = append(r.free, i)
}

// find returns the queue with the tag, or nil.
func (r *registry) find(tag uint64) settler {
	slots := r.slots.Load()
	i := tag >> indexShift & (maxQueues - 1)
	if slots == nil || i >= uint64(len(*slots)) {
		return nil
	}
	if t := (*slots)[i].Load(); t != nil && t.tag == tag {
		return t.queue
	}
	return nil
}

// grow doubles the number of slots, or returns false if there are already maxQueues
// slots. It copies the slots to a new array, because a concurrent find() may still read
// the old array.
func (r *registry) grow() bool {
	old := len(r.gens)
	if old == maxQueues {
		return false
	}
	slots := make([]atomic.Pointer[tagged], max(2*old, 64))
	for i := range old {
		slots[i].Store((*r.slots.Load())[i].Load())
	}
	for i := len(slots) - 1; i >= old; i-- {
		r.free = append(r.free, uint32(i))
	}
	r.gens = append(r.gens, make([]uint32, len(slots)-old)...)
	r.slots.Store(&slots)
	return true
}
