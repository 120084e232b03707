//go:build linux

package soft

import (
	"errors"
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

func newBindings(ends *shm.Ends, shards uint32) *bindings {
	return &bindings{
		ends: ends, shards: shards,
		bound: make(map[uint32]boundQP), offered: make(map[endKey]*shmpath.End),
	}
}

// add sets the binding of a queue pair. If taken is true, the queue pair has already
// taken the End of the binding.
func (t *bindings) add(qpn uint32, b *connmgr.Binding, taken bool) {
	t.mu.Lock()
	old := t.bound[qpn]
	t.bound[qpn] = boundQP{Binding: b, taken: taken}
	t.mu.Unlock()
	old.release()
}

// remove removes a binding, unless another one has replaced it.
func (t *bindings) remove(qpn uint32, b *connmgr.Binding) {
	t.mu.Lock()
	e, ok := t.bound[qpn]
	if !ok || e.Binding != b {
		t.mu.Unlock()
		return
	}
	delete(t.bound, qpn)
	t.mu.Unlock()
	e.release()
}

// release releases the End of a removed binding, unless a queue pair has taken it.
func (e boundQP) release() {
	if e.hasEnd() {
		e.End.Release()
	}
}

// hasEnd reports whether the binding has an End that was not taken yet.
func (e boundQP) hasEnd() bool { return e.Binding != nil && e.End != nil && !e.taken }

// path returns which path a queue pair must use when it enters RTR. Both results are
// false if there is no binding, or if the End of the binding was already taken.
func (t *bindings) path(qpn uint32) (local, wire bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.bound[qpn]
	if !ok {
		return false, false
	}
	return e.hasEnd(), e.End == nil
}

// flow returns which sides of a connection use end-to-end flow control. Without a
// binding, neither side does.
func (t *bindings) flow(qpn uint32) connmgr.CreditFlow {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.bound[qpn]; ok {
		return e.Flow
	}
	return connmgr.CreditFlow{}
}

// dataHeard reports the first packet from the peer to connection management; see
// connmgr.DataHearer.
func (t *bindings) dataHeard(qpn uint32) {
	t.mu.Lock()
	e, ok := t.bound[qpn]
	t.mu.Unlock()
	if ok && e.Hearer != nil {
		e.Hearer.DataHeard()
	}
}

var errSelf = errors.New("a queue pair can not be connected to itself")

// take returns an End for a queue pair that enters RTR and then owns the End. The
// parameters are queue pair numbers: own is this queue pair, and peer its peer. If no
// End is bound or offered to this queue pair, take makes two Ends, and offers one to the
// peer.
func (t *bindings) take(own, peer uint32) (*shmpath.End, error) {
	t.mu.Lock()
	end := t.existing(own, peer)
	t.mu.Unlock()
	if end != nil {
		return end, nil
	}
	if own == peer {
		return nil, &verbs.FeatureError{Feature: "loopback queue pair", Reason: errSelf}
	}
	ownEnd, peerEnd, err := t.ends.UsePair(own%t.shards, peer%t.shards)
	if err != nil {
		return nil, resource.Wrap(err)
	}
	end, unused := t.takeOrOffer(own, peer, ownEnd, peerEnd)
	for _, e := range unused {
		e.Release()
	}
	return end, nil
}

// existing takes the End that is bound or offered to a queue pair, or returns nil. The
// caller holds the mutex.
func (t *bindings) existing(own, peer uint32) *shmpath.End {
	if e := t.bound[own]; e.hasEnd() {
		t.bound[own] = boundQP{e.Binding, true}
		return &shmpath.End{End: e.End, Source: e.Peer}
	}
	end := t.offered[endKey{own, peer}]
	delete(t.offered, endKey{own, peer})
	return end
}

// takeOrOffer is called with two Ends that take() has made. If another goroutine has
// bound or offered an End to the queue pair, takeOrOffer returns that End. Otherwise it
// returns ownEnd, and offers peerEnd to the peer. The caller releases the unused Ends.
func (t *bindings) takeOrOffer(own, peer uint32, ownEnd, peerEnd *shm.End) (end *shmpath.End, unused []*shm.End) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if end := t.existing(own, peer); end != nil {
		return end, []*shm.End{ownEnd, peerEnd}
	}
	if old := t.offered[endKey{peer, own}]; old != nil {
		unused = append(unused, old.End)
	}
	t.offered[endKey{peer, own}] = &shmpath.End{End: peerEnd}
	return &shmpath.End{End: ownEnd}, unused
}

// drop releases the End that a queue pair has offered to its peer. It returns false if
// there is none, usually because the peer has taken it.
func (t *bindings) drop(own, peer uint32) bool {
	t.mu.Lock()
	end := t.offered[endKey{peer, own}]
	delete(t.offered, endKey{peer, own})
	t.mu.Unlock()
	if end == nil {
		return false
	}
	end.Release()
	return true
}

// close releases all Ends that no queue pair has taken.
func (t *bindings) close() {
	t.mu.Lock()
	bound, offered := t.bound, t.offered
	t.bound, t.offered = make(map[uint32]boundQP), make(map[endKey]*shmpath.End)
	t.mu.Unlock()
	for _, e := range bound {
		e.release()
	}
	for _, end := range offered {
		end.Release()
	}
}
