//go:build linux

package soft

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// bindings is a device's table of the connections that its RC queue pairs have or will
// have. Connection management adds a binding for each of its connections. An application
// can also connect two queue pairs of the device without connection management. Then the
// queue pair that enters RTR first makes both ends of the shared memory, and offers one
// end to the other queue pair.
//
// The methods may be called from any goroutine, and call no queue pair.
type bindings struct {
	geom shm.Geometry
	maps *shm.MappingLimit

	mu      sync.Mutex
	bound   map[uint32]*boundQP  // bindings of connection management, by queue pair number
	offered map[endKey]*localEnd // ends that a queue pair has made for its peer and that the peer has not taken
}

// A boundQP is a binding with its state.
type boundQP struct {
	*connmgr.Binding
	taken bool // true once the queue pair owns the end of the binding
}

// An endKey identifies an offered end. The field own is the number of the queue pair
// that may take the end, and peer is the number of the queue pair that has made the end.
type endKey struct{ own, peer uint32 }

// A localEnd is an end of a connection on the local path.
type localEnd struct {
	*shm.End
	// the peer's source for the limit of access errors; zero value if the peer is this
	// process
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

// add adds a binding for the queue pair with the number qpn, in place of an earlier one.
func (t *bindings) add(qpn uint32, b *connmgr.Binding, taken bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.bound[qpn]; old != nil {
		old.release()
	}
	t.bound[qpn] = &boundQP{Binding: b, taken: taken}
}

// remove removes a binding, unless another one has replaced it.
func (t *bindings) remove(qpn uint32, b *connmgr.Binding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.bound[qpn]; e != nil && e.Binding == b {
		e.release()
		delete(t.bound, qpn)
	}
}

// release releases the end of a binding, unless the queue pair has taken it.
func (e *boundQP) release() {
	if e.hasEnd() {
		e.End.Release()
	}
}

// hasEnd reports whether the binding has an end that was not taken.
func (e *boundQP) hasEnd() bool { return e.End != nil && !e.taken }

// path reports whether connection management has bound a queue pair that enters RTR to
// the local path or to the wire path. Both results are false if connection management
// has not bound the queue pair, or if its end was already taken.
func (t *bindings) path(qpn uint32) (local, wire bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.bound[qpn]
	if e == nil {
		return false, false
	}
	return e.hasEnd(), e.End == nil
}

// flow returns the flow control of a queue pair's connection. It is zero if connection
// management has not bound the queue pair.
func (t *bindings) flow(qpn uint32) creditFlow {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.bound[qpn]; e != nil {
		return creditFlow{sends: e.Flow.Sends, receives: e.Flow.Receives}
	}
	return creditFlow{}
}

// dataHeard tells connection management that the first packet of a queue pair's peer has
// arrived.
func (t *bindings) dataHeard(qpn uint32) {
	t.mu.Lock()
	e := t.bound[qpn]
	t.mu.Unlock()
	if e != nil && e.DataHeard != nil {
		e.DataHeard()
	}
}

// take returns the end of a connection for a queue pair that enters RTR. The queue pair
// then owns the end. The parameter own is the number of this queue pair, and peer is the
// number of the peer's queue pair. If no end was bound or offered, take makes both ends,
// and offers one to the peer.
func (t *bindings) take(own, peer uint32) (*localEnd, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.bound[own]; e != nil && e.hasEnd() {
		e.taken = true
		return &localEnd{End: e.End, peer: e.Peer}, nil
	}
	if end := t.offered[endKey{own, peer}]; end != nil {
		delete(t.offered, endKey{own, peer})
		return end, nil
	}
	mine, theirs, err := shm.NewEndPair(t.geom, t.maps)
	if err != nil {
		return nil, resource.Wrap(err)
	}
	if old := t.offered[endKey{peer, own}]; old != nil {
		old.Release()
	}
	t.offered[endKey{peer, own}] = &localEnd{End: theirs}
	return &localEnd{End: mine, provisional: true}, nil
}

// drop withdraws and releases the end that a queue pair has offered to its peer. The
// parameter own is the number of this queue pair, and peer is the number of the peer's
// queue pair. drop returns false if no end is offered, or if the peer has taken the end.
func (t *bindings) drop(own, peer uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := t.offered[endKey{peer, own}]
	if end == nil {
		return false
	}
	delete(t.offered, endKey{peer, own})
	end.Release()
	return true
}

// close releases all ends that no queue pair has taken.
func (t *bindings) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.bound {
		e.release()
	}
	for _, end := range t.offered {
		end.Release()
	}
	clear(t.bound)
	clear(t.offered)
}
