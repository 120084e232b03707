package reactor

import (
	"maps"
	"slices"
	"sync"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An acceptor holds the listeners of an engine, and the connection requests that have no
// answer yet. All their IDs use one event channel, which the first loop reads. These IDs
// have no queue pair, so any goroutine may use them. When a request is accepted, its ID
// moves to the loop of the new connection.
type acceptor struct {
	engine  *Engine
	channel *cm.EventChannel

	// mu guards the fields below. It is held while an event is fetched and acknowledged,
	// because no ID may be closed or moved in that time.
	mu        sync.Mutex
	listeners map[*Listener]struct{}
	// Connection requests whose ID is on the acceptor's channel.
	pending map[*ConnRequest]struct{}
	closing bool // true after close(); new requests are rejected
}

// openAcceptor makes the acceptor of e and opens its event channel.
func openAcceptor(e *Engine) (*acceptor, error) {
	ch, err := cm.OpenChannel(e.provider)
	if err != nil {
		return nil, err
	}
	return &acceptor{
		engine: e, channel: ch,
		listeners: make(map[*Listener]struct{}), pending: make(map[*ConnRequest]struct{}),
	}, nil
}

func (a *acceptor) wakeCause() WakeCause { return WakeByConnection }

// ready handles up to eventBudget events of the event channel. It runs on the goroutine
// of the first loop.
func (a *acceptor) ready(poller.Readiness) (work int) {
	loop := a.engine.loops[0]
	for work < eventBudget {
		act, err := a.next()
		if err != nil {
			loop.recordError(loop.unwatch(a))
			a.engine.fail(err)
			return work
		}
		if act == nil {
			return work
		}
		work++
		act(loop)
	}
	return work
}

// next fetches and acknowledges one event. It returns the function that handles the
// event, or nil if there is no event. The function must run on the goroutine of the
// first loop.
func (a *acceptor) next() (act func(*Loop), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ev, ok, err := a.channel.Next()
	if err != nil || !ok {
		return nil, err
	}
	act = func(*Loop) {}
	switch ev.Type {
	case cm.ConnectRequest:
		req := a.engine.newRequest(&ev)
		ev.ID.SetContext(req)
		a.pending[req] = struct{}{}
		act = func(l *Loop) { l.handleRequest(req) }
		if a.closing {
			act = func(*Loop) { a.rejectShutdown(req) }
		}
	case cm.Unreachable:
		if req, ok := ev.ID.Context().(*ConnRequest); ok {
			req.endedBy = byPeer
			act = func(l *Loop) { l.cancelRequest(req, byPeer) }
		}
	case cm.DeviceRemoval:
		if req, ok := ev.ID.Context().(*ConnRequest); ok {
			req.endedBy = byRemoval
			act = func(l *Loop) { l.cancelRequest(req, byRemoval) }
		} else if ln := a.removeListener(ev.ID); ln != nil {
			act = func(l *Loop) { l.closeListener(ln, ErrDeviceRemoved) }
		}
	}
	return act, ev.Ack()
}

// removeListener removes and returns the listener with this ID, after its device was
// removed. It returns nil if the listener was closed. The caller holds mu.
func (a *acceptor) removeListener(id *cm.ID) *Listener {
	for ln := range a.listeners {
		if ln.id == id {
			delete(a.listeners, ln)
			return ln
		}
	}
	return nil
}

// removeListenersOf removes the listeners that are bound to an address of dev, and
// returns them.
func (a *acceptor) removeListenersOf(dev verbs.Device) (removed []*Listener) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for ln := range a.listeners {
		if ln.id.Device() == dev {
			delete(a.listeners, ln)
			removed = append(removed, ln)
		}
	}
	return removed
}

// reject rejects a request. Before the call, req.decide must have returned true.
func (a *acceptor) reject(req *ConnRequest, privateData []byte) error {
	return a.rejectWith(req, func() error { return req.id.Reject(privateData) })
}

// rejectNoResources rejects a request because this side has no room. Before the call,
// req.decide must have returned true.
func (a *acceptor) rejectNoResources(req *ConnRequest) error {
	return a.rejectWith(req, req.id.RejectNoResources)
}

// rejectWith calls sendReject and closes the request's ID. If the request has already
// ended, nothing is sent, and rejectWith returns the reason.
func (a *acceptor) rejectWith(req *ConnRequest, sendReject func() error) error {
	a.mu.Lock()
	err := req.endedBy.err()
	if err == nil {
		err = sendReject()
	}
	err = firstError(err, req.id.Close())
	a.mu.Unlock()
	a.removeRequest(req)
	return err
}

// moveID moves the ID of an accepted request to the event channel of a loop. If the
// request has ended, moveID returns the reason.
func (a *acceptor) moveID(req *ConnRequest, channel *cm.EventChannel) error {
	a.mu.Lock()
	err := req.endedBy.err()
	if err == nil {
		err = req.id.Migrate(channel)
	}
	a.mu.Unlock()
	if err == nil {
		a.removeRequest(req)
	}
	return err
}

// removeRequest removes a request whose ID was closed or moved. During a shutdown, the
// first loop waits until no request is left. removeRequest then wakes it.
func (a *acceptor) removeRequest(req *ConnRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.pending, req)
	if a.closing && len(a.pending) == 0 {
		a.engine.loops[0].Wake()
	}
}

// drained reports whether the acceptor is closed and has no more requests.
func (a *acceptor) drained() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closing && len(a.pending) == 0
}

// close closes the listeners and rejects the requests that have no answer yet. A request
// that arrives later is rejected when acceptor.ready handles its event.
func (a *acceptor) close() (err error) {
	a.mu.Lock()
	a.closing = true
	listeners := slices.Collect(maps.Keys(a.listeners))
	pending := slices.Collect(maps.Keys(a.pending))
	a.mu.Unlock()
	for _, ln := range listeners {
		err = firstError(err, ln.Close())
	}
	for _, req := range pending {
		a.rejectShutdown(req)
	}
	return err
}

// rejectShutdown rejects a request because the engine is shutting down.
func (a *acceptor) rejectShutdown(req *ConnRequest) {
	if req.decide(byEngine) {
		a.engine.rejects.Add(1)
		_ = a.reject(req, nil) // the reject fails only if the peer has given up the request
	}
}
