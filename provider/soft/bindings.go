//go:build linux

package soft

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shmpath"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// bindings is the table of the RC connections of a device. Connection management adds a
// binding for each of its connections.
//
// An application can also connect two queue pairs of the device without connection
// management. The first of them to enter RTR then makes two Ends of new shared memory.
// It uses one End, and offers the other to the second queue pair. A queue pair that
// takes an End owns it.
//
// Any goroutine may call the methods. No method maps or unmaps memory while it holds the
// mutex, because shards take the mutex when they receive packets.
type bindings struct {
	ends   *shm.Ends
	shards uint32 // number of shards; see qp.ShardsOf

	mu sync.Mutex
	// bindings that connection management has added, by queue pair number
	bound map[uint32]boundQP
	// Ends that were offered to a queue pair and not taken yet
	offered map[endKey]*shmpath.End
}

// A boundQP is the binding of a queue pair; see connmgr.Binding.
type boundQP struct {
	*connmgr.Binding
	taken bool // true after the queue pair has taken the End of the binding
}

// An endKey identifies a shm.End that one queue pair offers to another. The field maker
// is the number of the queue pair that offers it, and taker that of the other.
type endKey struct{ taker, maker uint32 }

func (k endKey) compare(o endKey) int {
	return cmp.Or(cmp.Compare(k.taker, o.taker), cmp.Compare(k.maker, o.maker))
}

func newBindings(ends *shm.Ends, shards uint32) *bindings {
	return &bindings{
		ends: ends, shards: shards,
		bound: make(map[uint32]boundQP), offered: make(map[endKey]*shmpath.End),
	}
}

// add sets the binding of a queue pair. If taken is true, the queue pair has already
// taken the End of the binding.
func (bs *bindings) add(qpn uint32, b *connmgr.Binding, taken bool) {
	bs.mu.Lock()
	old := bs.bound[qpn]
	bs.bound[qpn] = boundQP{Binding: b, taken: taken}
	bs.mu.Unlock()
	old.release()
}

// remove removes a binding, unless another one has replaced it.
func (bs *bindings) remove(qpn uint32, b *connmgr.Binding) {
	bs.mu.Lock()
	e, ok := bs.bound[qpn]
	if !ok || e.Binding != b {
		bs.mu.Unlock()
		return
	}
	delete(bs.bound, qpn)
	bs.mu.Unlock()
	e.release()
}

// release releases the End of a removed binding, unless a queue pair has taken it.
func (b boundQP) release() {
	if b.hasEnd() {
		b.End.Release()
	}
}

// hasEnd reports whether the binding has an End that was not taken yet.
func (b boundQP) hasEnd() bool { return b.Binding != nil && b.End != nil && !b.taken }

// path returns which path a queue pair must use when it enters RTR. Both results are
// false if there is no binding, or if the End of the binding was already taken.
func (bs *bindings) path(qpn uint32) (local, wire bool) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	e, ok := bs.bound[qpn]
	if !ok {
		return false, false
	}
	return e.hasEnd(), e.End == nil
}

// flow returns which sides of a connection use end-to-end flow control. Without a
// binding, neither side does.
func (bs *bindings) flow(qpn uint32) connmgr.CreditFlow {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if e, ok := bs.bound[qpn]; ok {
		return e.Flow
	}
	return connmgr.CreditFlow{}
}

// dataHeard reports the first packet from the peer to connection management; see
// connmgr.DataHearer.
func (bs *bindings) dataHeard(qpn uint32) {
	bs.mu.Lock()
	e, ok := bs.bound[qpn]
	bs.mu.Unlock()
	if ok && e.Hearer != nil {
		e.Hearer.DataHeard()
	}
}

var errSelf = errors.New("a queue pair can not be connected to itself")

// take returns an End for a queue pair that enters RTR and then owns the End. The
// parameters are queue pair numbers: own is this queue pair, and peer its peer. If no
// End is bound or offered to this queue pair, take makes two Ends, and offers one to the
// peer.
func (bs *bindings) take(own, peer uint32) (*shmpath.End, error) {
	bs.mu.Lock()
	end := bs.existing(own, peer)
	bs.mu.Unlock()
	if end != nil {
		return end, nil
	}
	if own == peer {
		return nil, &verbs.FeatureError{Feature: "loopback queue pair", Reason: errSelf}
	}
	ownEnd, peerEnd, err := bs.ends.UsePair(own%bs.shards, peer%bs.shards)
	if err != nil {
		return nil, resource.Wrap(err)
	}
	end, unused := bs.takeOrOffer(own, peer, ownEnd, peerEnd)
	for _, e := range unused {
		e.Release()
	}
	return end, nil
}

// existing takes the End that is bound or offered to a queue pair, or returns nil. The
// caller holds the mutex.
func (bs *bindings) existing(own, peer uint32) *shmpath.End {
	if e := bs.bound[own]; e.hasEnd() {
		bs.bound[own] = boundQP{e.Binding, true}
		return &shmpath.End{End: e.End, Source: e.Peer}
	}
	end := bs.offered[endKey{own, peer}]
	delete(bs.offered, endKey{own, peer})
	return end
}

// takeOrOffer is called with two Ends that take() has made. If another goroutine has
// bound or offered an End to the queue pair, takeOrOffer returns that End. Otherwise it
// returns ownEnd, and offers peerEnd to the peer. The caller releases the unused Ends.
func (bs *bindings) takeOrOffer(own, peer uint32, ownEnd, peerEnd *shm.End) (end *shmpath.End, unused []*shm.End) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if end := bs.existing(own, peer); end != nil {
		return end, []*shm.End{ownEnd, peerEnd}
	}
	if old := bs.offered[endKey{peer, own}]; old != nil {
		unused = append(unused, old.End)
	}
	bs.offered[endKey{peer, own}] = &shmpath.End{End: peerEnd}
	return &shmpath.End{End: ownEnd}, unused
}

// drop releases the End that a queue pair has offered to its peer. It returns false if
// there is none, usually because the peer has taken it.
func (bs *bindings) drop(own, peer uint32) bool {
	bs.mu.Lock()
	end := bs.offered[endKey{peer, own}]
	delete(bs.offered, endKey{peer, own})
	bs.mu.Unlock()
	if end == nil {
		return false
	}
	end.Release()
	return true
}

// close releases all Ends that no queue pair has taken.
func (bs *bindings) close() {
	bs.mu.Lock()
	bound, offered := bs.bound, bs.offered
	bs.bound, bs.offered = make(map[uint32]boundQP), make(map[endKey]*shmpath.End)
	bs.mu.Unlock()
	for _, num := range slices.Sorted(maps.Keys(bound)) {
		bound[num].release()
	}
	for _, key := range slices.SortedFunc(maps.Keys(offered), endKey.compare) {
		offered[key].Release()
	}
}
