package cm

import (
	"fmt"
	"net/netip"
	"sync"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An ID is one end of a connection, a listener, or a datagram lookup. No call waits for
// the peer: a nil error means that the operation has started. The package comment says
// which goroutines may call the methods. Source: rdma_cm(7).
//
// After Close:
//
//   - Close and CloseQP return nil.
//   - PortSpace, Channel, UserData, SetUserData and State still work.
//   - Other getters return the zero value.
//   - All other methods that return an error return verbs.ErrClosed.
type ID struct {
	ps PortSpace
	t  TransportID

	// mu guards the fields below. EventChannel has the order of the locks.
	mu       sync.Mutex
	state    State
	channel  *EventChannel
	userData any
	qp       verbs.QP
	srq      bool         // true if qp uses a shared receive queue
	request  MessageParam // passive side: parameters of the peer's request
	unacked  int          // number of events that are not acknowledged
	// disconnectData is the private data of a Disconnect in StateAccepted: see applyEvent.
	disconnectData []byte
}

// do executes a call if the state allows it. If action() succeeds, the state changes.
func (id *ID) do(c call, action func() error) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	to, err := id.allows(c)
	if err == nil {
		err = action()
	}
	if err != nil {
		return operr.Wrap("cm "+c.String(), err)
	}
	id.state = to
	return nil
}

// allows returns the state after the call. It returns an error if the call is not
// allowed.
func (id *ID) allows(c call) (State, error) {
	if id.state == StateClosed {
		return 0, verbs.ErrClosed
	}
	to, ok := follow(callRules, c, id.ps, id.state)
	if !ok {
		return 0, stateError(c, id.state)
	}
	if id.qp != nil && c.withoutQP() {
		return 0, fmt.Errorf("%w: the ID has a queue pair", verbs.ErrState)
	}
	return to, nil
}

func (id *ID) acked() {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.unacked--
}

// Close ends the ID. It cancels a pending operation, disconnects a connection, and
// refuses an unanswered request with RejectConsumer. Events that were not fetched are
// dropped. Close never blocks. A second Close does nothing. Source: rdma_destroy_id(3),
// which waits instead.
//
// While the ID has a queue pair or unacknowledged events, Close returns verbs.ErrBusy
// and does nothing.
//
// A listener refuses the requests that were not fetched. The IDs of fetched requests
// continue to work.
func (id *ID) Close() error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.state == StateClosed {
		return nil
	}
	if id.qp != nil {
		return operr.Wrap("cm close ID", fmt.Errorf("%w: the ID has a queue pair", verbs.ErrBusy))
	}
	if id.unacked > 0 {
		return operr.Wrap("cm close ID", fmt.Errorf("%w: %d events of the ID are not acknowledged", verbs.ErrBusy, id.unacked))
	}
	id.state = StateClosed
	id.channel.unregister(id)
	return operr.Wrap("cm close ID", id.t.Destroy())
}

// State returns the state of the ID.
func (id *ID) State() State {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.state
}

// PortSpace returns the port space of the ID. The new ID of a ConnectRequest has the
// port space of its listener.
func (id *ID) PortSpace() PortSpace { return id.ps }

// Channel returns the channel on which the events of the ID arrive.
func (id *ID) Channel() *EventChannel {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.channel
}

// UserData returns the value that SetUserData stored. The new ID of a ConnectRequest
// starts with the value of its listener.
func (id *ID) UserData() any {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.userData
}

// SetUserData stores a value of the caller with the ID.
func (id *ID) SetUserData(v any) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.userData = v
}

// Device returns the device of the ID. It returns nil if the ID is not bound, or is
// bound to a wildcard.
func (id *ID) Device() verbs.Device { return ask(id, TransportID.Device) }

// Port returns the number of the device's port that the ID uses, from 1. If Device
// returns nil, the number has no meaning.
func (id *ID) Port() uint8 { return ask(id, TransportID.Port) }

// LocalAddr returns the address of this side. While the address is not known, LocalAddr
// returns the zero value. Source: rdma_get_local_addr(3).
func (id *ID) LocalAddr() netip.AddrPort { return ask(id, TransportID.LocalAddr) }

// RemoteAddr returns the address of the peer. While the address is not known, RemoteAddr
// returns the zero value. Source: rdma_get_peer_addr(3).
func (id *ID) RemoteAddr() netip.AddrPort { return ask(id, TransportID.RemoteAddr) }

// ask calls a getter of the transport's ID. If the ID is closed, it returns the zero
// value.
func ask[T any](id *ID, getter func(TransportID) T) (answer T) {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.state != StateClosed {
		answer = getter(id.t)
	}
	return answer
}
