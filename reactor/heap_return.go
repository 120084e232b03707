package reactor

import (
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// connHeap is about how many bytes of the Go heap a connection takes. Measured with the
	// defaults: 4.5 KiB, and 24 KiB in package gnetrdma.
	connHeap = 8 << 10
	// minHeapReturn is how many bytes of ended connections are worth a garbage collection.
	// Arbitrary.
	minHeapReturn = 4 << 20
	// heapReturnEvery is the time between two checks. Arbitrary.
	heapReturnEvery = trimEvery
)

// A heapReturn gives the Go memory of ended connections back to the system. The garbage
// collector runs when the program has allocated as much as it had before, and at least
// every two minutes. When most connections end at once, the program allocates little, and
// the memory stays for longer than that: the runtime returns few pages after the first
// collection. So after many ends, in an interval with few ends and no collection,
// heapReturn calls debug.FreeOSMemory once. A program whose heap is much larger than what
// the connections took is left alone, because a collection would cost it more.
//
// Any goroutine may call connEnded. The last check may run after the engine has ended.
type heapReturn struct {
	collect func()                          // debug.FreeOSMemory, unless a test replaces it
	heap    func() (cycles, objects uint64) // readHeap, unless a test replaces it

	ended atomic.Int64 // number of connections that have ended
	armed atomic.Bool  // true if check will be called

	// The next fields belong to check, which never runs twice at a time.
	seen    int64  // value of ended in the last check
	pending int64  // number of ended connections whose memory may not be collected yet
	cycles  uint64 // number of garbage collections at the last check
}

func newHeapReturn() *heapReturn { return &heapReturn{collect: debug.FreeOSMemory, heap: readHeap} }

// readHeap returns the number of garbage collections, and the size in bytes of the
// objects in the Go heap, including those that were not collected yet.
func readHeap() (cycles, objects uint64) {
	s := [...]metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s[:])
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}

// connEnded counts a connection that has ended.
func (r *heapReturn) connEnded() {
	r.ended.Add(1)
	r.arm()
}

// arm makes check run after heapReturnEvery, if this is not the case already.
func (r *heapReturn) arm() {
	if !r.armed.Load() && r.armed.CompareAndSwap(false, true) {
		time.AfterFunc(heapReturnEvery, r.check)
	}
}

// check makes the garbage collector run if the memory of many ended connections waits for
// it. It checks again later if it has to wait.
func (r *heapReturn) check() {
	ended := r.ended.Load()
	few := (ended-r.seen)*connHeap < minHeapReturn
	r.pending += ended - r.seen
	cycles, objects := r.heap()
	collected := cycles != r.cycles
	if few && collected {
		r.pending = ended - r.seen
	}
	if few && !collected && uint64(r.pending)*connHeap >= max(minHeapReturn, objects/4) {
		r.pending = 0
		r.collect()
		cycles, _ = r.heap()
	}
	r.seen, r.cycles = ended, cycles
	r.armed.Store(false)
	if !few || r.ended.Load() != ended {
		r.arm()
	}
}
