//go:build linux

package soft

import (
	"errors"
	"sync"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// bindings is a device's table of connections. It has the connections of the RC queue
// pairs that are connected, and of those that will be connected. Connection management
// adds a binding for each of its connections. An application can also connect two queue
// pairs of the device without connection management. Then the queue pair that enters RTR
// first makes both ends of the shared memory. It takes one end itself, and offers the
// other end to the other queue pair.
//
// Any goroutine may call the methods. They call no method of a queue pair. A shard takes
// the mutex too when it receives packets, and should not wait long for it. So no method
// maps or unmaps shared memory while it holds the mutex.
type bindings struct {
	geom shm.Geometry
	maps *shm.MappingLimit

	mu      sync.Mutex
	bound   map[uint32]*boundQP  // bindings of connection management, by queue pair number
	offered map[endKey]*localEnd // ends that a queue pair has made for its peer and that the peer has not taken
}

// A boundQP is the binding of one queue pair. It also says whether the queue pair has
// taken the end of the binding.
type boundQP struct {
	*connmgr.Binding
	taken bool // true once the queue pair owns the end of the binding
}

// An endKey identifies an offered end. The field maker is the number of the queue pair
// that has made the end. The field taker is the number of the queue pair to which the
// end is offered.
type endKey struct{ taker, maker uint32 }

// A localEnd is an end of a connection on the local path.
type localEnd struct {
	*shm.End
	// source to which access errors of the peer are counted; zero value if the peer is
	// this process
	peer access.Source
	// true if the queue pair has made both ends itself, because connection management had
	// added no binding. The other end is then offered to the peer.
	provisional bool
}

func newBindings(geom shm.Geometry, maps *shm.MappingLimit) *bindings {
	return &bindings{
		geom: geom, maps: maps,
		bound: make(map[uint32]*boundQP), offered: make(map[endKey]*localEnd),
	}
}

// add adds a binding for the queue pair with the number qpn. If the queue pair had
// another binding, add replaces it, and releases its end unless the queue pair has taken
// this end. The parameter taken is true if the queue pair already owns the end of the
// new binding.
func (t *bindings) add(qpn uint32, b *connmgr.Binding, taken bool) {
	t.mu.Lock()
	old := t.bound[qpn]
	t.bound[qpn] = &boundQP{Binding: b, taken: taken}
	t.mu.Unlock()
	old.release()
}

// remove removes a binding, unless another one has replaced it.
func (t *bindings) remove(qpn uint32, b *connmgr.Binding) {
	t.mu.Lock()
	e := t.bound[qpn]
	if e == nil || e.Binding != b {
		t.mu.Unlock()
		return
	}
	delete(t.bound, qpn)
	t.mu.Unlock()
	e.release()
}

// release releases the end of a binding that is not in the table any more, unless the
// queue pair has taken the end. It does nothing if the receiver e is nil.
func (e *boundQP) release() {
	if e != nil && e.hasEnd() {
		e.End.Release()
	}
}

// hasEnd reports whether the binding has an end that the queue pair has not taken yet.
func (e *boundQP) hasEnd() bool { return e.End != nil && !e.taken }

// path says which path connection management has chosen for a queue pair that enters
// RTR. The result local is true if the queue pair has a binding with an end that was not
// taken yet. The result wire is true if the queue pair has a binding for the wire path.
// Both results are false if the queue pair has no binding, or if it has already taken
// the end of its binding.
func (t *bindings) path(qpn uint32) (local, wire bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.bound[qpn]
	if e == nil {
		return false, false
	}
	return e.hasEnd(), e.End == nil
}

// flow says which sides of a queue pair's connection use end-to-end flow control, as
// connection management has negotiated it. If the queue pair has no binding, neither
// side does.
func (t *bindings) flow(qpn uint32) connmgr.CreditFlow {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.bound[qpn]; e != nil {
		return e.Flow
	}
	return connmgr.CreditFlow{}
}

// dataHeard tells connection management that a queue pair has received the first packet
// of its peer; see connmgr.Binding.DataHeard.
func (t *bindings) dataHeard(qpn uint32) {
	t.mu.Lock()
	e := t.bound[qpn]
	t.mu.Unlock()
	if e != nil && e.DataHeard != nil {
		e.DataHeard()
	}
}

var errSelf = errors.New("a queue pair can not be connected to itself")

// take returns the end of a connection for a queue pair that enters RTR. The queue pair
// then owns the end. The parameter own is the number of this queue pair, and peer is the
// number of the peer's queue pair. If no end was bound or offered, take makes both ends,
// and offers one to the peer. The peer is then a queue pair of the same device, so take
// returns a *verbs.FeatureError if both numbers are equal.
func (t *bindings) take(own, peer uint32) (*localEnd, error) {
	t.mu.Lock()
	end := t.existing(own, peer)
	t.mu.Unlock()
	if end != nil {
		return end, nil
	}
	if own == peer {
		return nil, &verbs.FeatureError{Feature: "loopback queue pair", Reason: errSelf}
	}
	ownEnd, peerEnd, err := shm.NewEndPair(t.geom, t.maps)
	if err != nil {
		return nil, resource.Wrap(err)
	}
	end, unused := t.takeOrOffer(own, peer, ownEnd, peerEnd)
	for _, e := range unused {
		e.Release()
	}
	return end, nil
}

// existing takes the end that was bound or offered to the queue pair with the number own.
// It returns nil if there is none. The caller holds the mutex.
func (t *bindings) existing(own, peer uint32) *localEnd {
	if e := t.bound[own]; e != nil && e.hasEnd() {
		e.taken = true
		return &localEnd{End: e.End, peer: e.Peer}
	}
	end := t.offered[endKey{own, peer}]
	delete(t.offered, endKey{own, peer})
	return end
}

// takeOrOffer is the last step of take. Before, take has made the ends ownEnd and
// peerEnd without holding the mutex. If another end was bound or offered in the
// meantime, takeOrOffer returns this other end. Otherwise it returns ownEnd, and offers
// peerEnd to the peer. The caller has to release the ends in the result unused.
func (t *bindings) takeOrOffer(own, peer uint32, ownEnd, peerEnd *shm.End) (end *localEnd, unused []*shm.End) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if end := t.existing(own, peer); end != nil {
		return end, []*shm.End{ownEnd, peerEnd}
	}
	if old := t.offered[endKey{peer, own}]; old != nil {
		unused = append(unused, old.End)
	}
	t.offered[endKey{peer, own}] = &localEnd{End: peerEnd}
	return &localEnd{End: ownEnd, provisional: true}, unused
}

// drop withdraws and releases the end that a queue pair has offered to its peer. The
// parameter own is the number of this queue pair, and peer is the number of the peer's
// queue pair. drop returns false if no end is offered, or if the peer has taken the end.
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

// close releases all ends that no queue pair has taken.
func (t *bindings) close() {
	t.mu.Lock()
	bound, offered := t.bound, t.offered
	t.bound, t.offered = make(map[uint32]*boundQP), make(map[endKey]*localEnd)
	t.mu.Unlock()
	for _, e := range bound {
		e.release()
	}
	for _, end := range offered {
		end.Release()
	}
}
