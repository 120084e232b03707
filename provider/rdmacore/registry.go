//go:build rdmacore && cgo && linux

package rdmacore

import (
	"sync"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// The wr_id that a device is given: the tag of a queue, which is never used
// again for long, and a place on it.
const (
	placeBits  = 24
	indexBits  = 20
	indexShift = placeBits
	genShift   = placeBits + indexBits

	maxPlaces = 1 << placeBits
	maxQueues = 1 << indexBits
	maxGen    = 1 << (64 - genShift)
)

// wrID names a place on a tagged queue.
func wrID(tag uint64, place uint32) uint64 { return tag | uint64(place) }

func splitWRID(id uint64) (tag uint64, place uint32) {
	return id &^ (maxPlaces - 1), uint32(id & (maxPlaces - 1))
}

// settler is a queue that completions come from.
type settler interface {
	// settle takes back the place of a completed request, and makes of its
	// completion what the caller expects. It reports false for a place where
	// nothing is.
	settle(place uint32, wc *verbs.WC) bool
	// failed is called for a completion that is none of success, after settle.
	failed()
}

// A registry finds the queue that a completion belongs to. Finding takes no lock
// and goes on while other goroutines add and remove. A tag that was removed is
// not met again until its slot has been used 2^20 times.
type registry struct {
	slots atomic.Pointer[[]atomic.Pointer[tagged]]

	mu   sync.Mutex
	free []uint32 // unused slots
	gens []uint32 // of the next use of each slot
}

type tagged struct {
	tag   uint64
	queue settler
}

// add gives a queue its tag, or reports false when there are too many.
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

// find returns the queue that has the tag, or nil.
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

// grow doubles the slots. Those who still look at the old ones find what was
// there before.
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
