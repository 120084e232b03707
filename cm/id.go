package cm

import (
	"net/netip"
	"sync"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// An ID is one end of a connection, a listener, or a datagram lookup. It is
// used for one connection only. See the package for who may call. After Close
// every call returns ErrClosed, and every getter the zero value. No call waits
// for the peer: nil means that the thing was begun. Source: rdma_cm(7).
type ID struct {
	ps PortSpace
	t  TransportID

	// mu guards what follows. See EventChannel for the order of locks.
	mu      sync.Mutex
	state   State
	channel *EventChannel
	context any
	qp      verbs.QP
	srq     bool      // qp receives from a shared queue
	request ConnParam // passive: what the peer asked for
	unacked int       // events fetched and not acknowledged
}

// do carries out one call: the state must allow it, then step must succeed,
// then the state moves on.
func (id *ID) do(c call, step func() error) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	to, err := id.allows(c)
	if err == nil {
		err = step()
	}
	if err != nil {
		return verbs.Wrap("cm "+c.String(), err)
	}
	id.state = to
	return nil
}

// allows returns the state that the call leads to, or why it must not be made.
func (id *ID) allows(c call) (State, error) {
	if id.state == StateClosed {
		return 0, verbs.ErrClosed
	}
	to, ok := follow(callRules, c, id.ps, id.state)
	if !ok {
		return 0, &StateError{Call: c.String(), State: id.state}
	}
	if id.qp != nil && c.withoutQP() {
		return 0, &StateError{Call: c.String(), State: id.state, Reason: "the ID has a queue pair"}
	}
	return to, nil
}

// happen moves the state on for an event that is about to be delivered and
// returns the one before; false when the event does not fit.
func (id *ID) happen(t EventType) (before State, ok bool) {
	id.mu.Lock()
	defer id.mu.Unlock()
	before = id.state
	if id.state, ok = follow(eventRules, t, id.ps, before); ok {
		id.unacked++
	}
	return before, ok
}

// acked counts an event that was given back.
func (id *ID) acked() {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.unacked--
}

// Close ends the ID. What is under way is cancelled, a connection is
// disconnected, an unanswered request refused with RejectConsumer; requests of
// a listener that were not fetched are refused too, those that were live on.
// Events not yet fetched vanish. It returns ErrBusy, and changes nothing, while
// the ID has a queue pair or events that were not acknowledged. It never blocks
// and is idempotent. Source: rdma_destroy_id(3), which waits for the
// acknowledgements instead.
func (id *ID) Close() error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.state == StateClosed {
		return nil
	}
	if id.qp != nil || id.unacked > 0 {
		return verbs.Wrap("cm close ID", verbs.ErrBusy)
	}
	id.state = StateClosed
	id.channel.forget(id)
	return verbs.Wrap("cm close ID", id.t.Destroy())
}

// State is where the ID stands.
func (id *ID) State() State {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.state
}

// PortSpace is the one given to NewID, or the listener's.
func (id *ID) PortSpace() PortSpace { return id.ps }

// Channel is where the events of the ID come.
func (id *ID) Channel() *EventChannel {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.channel
}

// Context returns what SetContext stored. A new ID of a ConnectRequest starts
// with the listener's.
func (id *ID) Context() any {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.context
}

// SetContext stores a value of the caller's with the ID.
func (id *ID) SetContext(v any) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.context = v
}

// Device is the device the ID is bound to, or nil: wildcards have none.
func (id *ID) Device() verbs.Device { return ask(id, TransportID.Device) }

// Port is the port of the device, from 1.
func (id *ID) Port() uint8 { return ask(id, TransportID.Port) }

// LocalAddr is the address of this side, as far as it is known. Source:
// rdma_get_local_addr(3).
func (id *ID) LocalAddr() netip.AddrPort { return ask(id, TransportID.LocalAddr) }

// RemoteAddr is the address of the peer, as far as it is known. Source:
// rdma_get_peer_addr(3).
func (id *ID) RemoteAddr() netip.AddrPort { return ask(id, TransportID.RemoteAddr) }

// ask asks the transport, unless the ID was closed.
func ask[T any](id *ID, getter func(TransportID) T) (answer T) {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.state != StateClosed {
		answer = getter(id.t)
	}
	return answer
}
