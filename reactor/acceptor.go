package reactor

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An acceptor holds the listeners of an engine and the connection requests that have no
// answer yet. The IDs (cm.ID) of the listeners and requests are on one event channel,
// which the first loop of the engine reads. These IDs have no queue pair, so they belong
// to no loop: any goroutine may listen, accept and reject. When a request is accepted,
// the loop that gets the connection moves the ID of the request to the loop's own
// channel.
type acceptor struct {
	engine  *Engine
	channel *cm.EventChannel

	// mu guards the fields below. The method next also holds mu from fetching an event
	// until the event is acknowledged. So no other goroutine closes the ID of the event
	// meanwhile, which would fail: an ID with an unacknowledged event can not be closed.
	mu        sync.Mutex
	listeners map[*Listener]struct{}
	// Connection requests whose ID is on the acceptor's channel.
	pending map[*ConnRequest]struct{}
	closing bool // close was called; every further request is rejected
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

func (a *acceptor) cause() Cause { return CauseConnection }

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

// next fetches one event and acknowledges it. The result act is a function that handles
// the event; the goroutine of the first loop must call it. If there was no event, act is
// nil. When the peer gives up a request, the connection manager does not always report
// an event. Without an event, the request seems to be valid until the application
// accepts it. cm.ID.Accept then fails, and OnAcceptError is called (see rdma_accept(3)).
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

// removeListener removes and returns the listener that has the ID. It is called when the
// device of the ID was removed. It returns nil if the listener was closed before.
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

// newRequest makes a ConnRequest from an event of type cm.ConnectRequest.
func (e *Engine) newRequest(ev *cm.Event) *ConnRequest {
	param := ev.Param
	param.PrivateData = nil
	return &ConnRequest{
		engine: e, listener: ev.Listener.Context().(*Listener), id: ev.ID,
		local: ev.ID.LocalAddr(), remote: ev.ID.RemoteAddr(), device: ev.ID.Device(),
		process: processOf(ev.ID), privateData: ev.Param.PrivateData, param: param,
	}
}

// handleRequest chooses a loop for a request and calls OnConnectRequest. If the request
// has no answer when OnConnectRequest returns, handleRequest sets the timer for
// Config.DecisionTimeout.
func (l *Loop) handleRequest(req *ConnRequest) {
	if req.decisionErr() != nil {
		// After next had fetched the event, close called rejectShutdown for this
		// request.
		return
	}
	loop := l.engine.loopFor(req, l.clock.time())
	if loop == nil {
		l.rejectFull(req)
		return
	}
	if req.decisionErr() != nil { // Config.Place has called Reject
		return
	}
	req.loop.Store(loop)
	l.onConnectRequest(req)
	if req.decisionErr() != nil {
		return
	}
	req.expiry.Fire = func() { l.expireRequest(req) }
	l.setTimer(&req.expiry, l.cfg.DecisionTimeout)
}

// rejectFull rejects a request without asking the application, because all loops are
// known to be full.
func (l *Loop) rejectFull(req *ConnRequest) {
	if !req.decide(byEngine) { // Config.Place or rejectShutdown has answered the request
		return
	}
	l.stats.NoResources++
	// The reject fails if the peer has given up the request. That is not an error of the
	// engine.
	if err := l.engine.acceptor.rejectNoResources(req); !errors.Is(err, verbs.ErrPeerGone) {
		l.recordError(err)
	}
}

// expireRequest is called when Config.DecisionTimeout has passed. It rejects the
// request, unless the request was answered.
func (l *Loop) expireRequest(req *ConnRequest) {
	if !req.decide(byDeadline) {
		return
	}
	l.stats.Expired++
	// The reject fails if the peer has given up the request. That is not an error of the
	// engine.
	if err := l.engine.acceptor.reject(req, nil); !errors.Is(err, verbs.ErrPeerGone) {
		l.recordError(err)
	}
}

// cancelRequest closes the ID of a request that has ended without an answer. The
// parameter by is byPeer if the peer has given up the request, and byRemoval if the
// device was removed. cancelRequest does nothing if the application or the engine has
// answered the request before this call. That answer then fails in moveID or rejectWith,
// which look at ConnRequest.endedBy.
func (l *Loop) cancelRequest(req *ConnRequest, by uint32) {
	if !req.decide(by) {
		return
	}
	l.timers.Stop(&req.expiry)
	l.recordError(req.id.Close())
	l.engine.acceptor.removeRequest(req)
}

// reject rejects a request. The caller has called req.decide, which has returned true.
func (a *acceptor) reject(req *ConnRequest, privateData []byte) error {
	return a.rejectWith(req, func() error { return req.id.Reject(privateData) })
}

// rejectNoResources rejects a request because this side has no room for a connection. The
// caller has called req.decide, which has returned true.
func (a *acceptor) rejectNoResources(req *ConnRequest) error {
	return a.rejectWith(req, req.id.RejectNoResources)
}

// rejectWith rejects a request and closes the ID of the request. To reject the request
// it calls the function reject. If the request has already ended, rejectWith only closes
// the ID, and returns the reason why the request has ended. rejectWith holds
// acceptor.mu, so that the method next does not fetch an event of the ID meanwhile:
// Close fails while an event of the ID is not acknowledged.
func (a *acceptor) rejectWith(req *ConnRequest, reject func() error) error {
	a.mu.Lock()
	err := decisionError(req.endedBy)
	if err == nil {
		err = reject()
	}
	err = firstError(err, req.id.Close())
	a.mu.Unlock()
	a.removeRequest(req)
	return err
}

// moveID moves the ID of an accepted request to the parameter to, the event channel of
// the loop that has the connection. If the request has ended since Accept, moveID
// returns the reason why the request has ended. moveID holds acceptor.mu, so that the
// method next does not fetch an event of the ID meanwhile: Migrate fails while an event
// of the ID is not acknowledged.
func (a *acceptor) moveID(req *ConnRequest, to *cm.EventChannel) error {
	a.mu.Lock()
	err := decisionError(req.endedBy)
	if err == nil {
		err = req.id.Migrate(to)
	}
	a.mu.Unlock()
	if err == nil {
		a.removeRequest(req)
	}
	return err
}

// removeRequest removes a request whose ID was closed or moved to another channel. If
// the engine is shutting down and this was the last request, removeRequest wakes the
// first loop, which does not end before all requests are removed.
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

// close closes the listeners and rejects the requests that have no answer yet. The method
// ready rejects requests that arrive later.
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
