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

// A door is where requests wait for their answer. Its channel has listeners and
// requests, which have no queue pair, and so belongs to no loop: any goroutine
// may listen, accept and reject, and the loop that is to have a connection pulls
// it over to its own channel. The first loop of the engine watches it.
type acceptor struct {
	engine  *Engine
	channel *cm.EventChannel

	// mu also keeps listeners open while one of their events is being taken.
	mu        sync.Mutex
	listeners map[*Listener]struct{}
	pending   map[*ConnRequest]struct{} // those whose ID is on channel
	closing   bool
}

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

// ready brings requests to the application, on the first loop.
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

// next takes one event, and returns the action that the first loop has to take. It
// returns nil if there was no event. There is not always an event when the peer of a
// request leaves; Accept then fails (see rdma_accept(3)).
func (a *acceptor) next() (act func(*Loop), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ev, err := a.channel.Next()
	if err != nil || ev == nil {
		return nil, err
	}
	act = func(*Loop) {}
	switch ev.Type {
	case cm.ConnectRequest:
		req := a.engine.newRequest(ev)
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
		} else if gone := a.removeListener(ev.ID); gone != nil {
			act = func(l *Loop) { l.closeListener(gone, ErrDeviceRemoved) }
		}
	}
	return act, ev.Ack()
}

// lose removes the listener whose device is gone, and returns it. It returns nil if the
// listener is closed.
func (a *acceptor) removeListener(id *cm.ID) *Listener {
	for ln := range a.listeners {
		if ln.id == id {
			delete(a.listeners, ln)
			return ln
		}
	}
	return nil
}

// removeListenersOf removes the listeners that are bound to an address of dev, and returns
// them.
func (a *acceptor) removeListenersOf(dev verbs.Device) (lost []*Listener) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for ln := range a.listeners {
		if ln.id.Device() == dev {
			delete(a.listeners, ln)
			lost = append(lost, ln)
		}
	}
	return lost
}

func (e *Engine) newRequest(ev *cm.Event) *ConnRequest {
	param := ev.Param
	param.PrivateData = nil
	return &ConnRequest{
		engine: e, id: ev.ID,
		local: ev.ID.LocalAddr(), remote: ev.ID.RemoteAddr(), device: ev.ID.Device(),
		process: processOf(ev.ID), privateData: slices.Clone(ev.Param.PrivateData), param: param,
	}
}

// admit places a request and asks the application. Only a request that is not
// answered at once needs a timer.
func (l *Loop) handleRequest(req *ConnRequest) {
	if req.decisionErr() != nil { // the door was shut meanwhile
		return
	}
	index, room := l.engine.place(req, l.clock.time())
	if !room {
		l.rejectFull(req)
		return
	}
	req.loop.Store(int32(index))
	l.onConnectRequest(req)
	if req.decisionErr() != nil {
		return
	}
	req.expiry.fire = func() { l.expireRequest(req) }
	l.setTimer(&req.expiry, l.cfg.DecisionTimeout)
}

// refuse rejects a request without asking the application, because all loops are
// known to be full.
func (l *Loop) rejectFull(req *ConnRequest) {
	if !req.decide(byEngine) { // the request was decided meanwhile
		return
	}
	l.stats.NoResources++
	// A peer that has gone meanwhile needs no answer.
	if err := l.engine.acceptor.rejectNoResources(req); !errors.Is(err, verbs.ErrPeerGone) {
		l.recordError(err)
	}
}

func (l *Loop) expireRequest(req *ConnRequest) {
	if !req.decide(byDeadline) {
		return
	}
	l.stats.Expired++
	// A peer that has left meanwhile needs no answer.
	if err := l.engine.acceptor.reject(req, nil); !errors.Is(err, verbs.ErrPeerGone) {
		l.recordError(err)
	}
}

// withdraw closes a request whose peer or device is gone: why is byPeer or byRemoval.
// It does nothing if the request was decided already: the goroutine that decided it then
// gets the error.
func (l *Loop) cancelRequest(req *ConnRequest, why uint32) {
	if !req.decide(why) {
		return
	}
	l.timers.stop(&req.expiry)
	l.recordError(req.id.Close())
	l.engine.acceptor.removeRequest(req)
}

// reject refuses a request that was decided on.
func (a *acceptor) reject(req *ConnRequest, privateData []byte) error {
	return a.rejectWith(req, func() error { return req.id.Reject(privateData) })
}

// refuse rejects a decided request because this side has no room for it.
func (a *acceptor) rejectNoResources(req *ConnRequest) error {
	return a.rejectWith(req, req.id.RejectNoResources)
}

// end refuses a request and closes its ID, while no event of the ID is being taken:
// with one the ID could not be closed.
func (a *acceptor) rejectWith(req *ConnRequest, refuse func() error) error {
	a.mu.Lock()
	err := decisionError(req.endedBy)
	if err == nil {
		err = refuse()
	}
	err = firstError(err, req.id.Close())
	a.mu.Unlock()
	a.removeRequest(req)
	return err
}

// pull moves the ID of an accepted request to the channel of the loop that has the
// connection, while no event of the ID is being taken.
func (a *acceptor) moveID(req *ConnRequest, to *cm.EventChannel) error {
	a.mu.Lock()
	err := decisionError(req.endedBy) // which was learned after Accept
	if err == nil {
		err = req.id.Migrate(to)
	}
	a.mu.Unlock()
	if err == nil {
		a.removeRequest(req)
	}
	return err
}

// left is to be called when the ID of a request has left the channel. The first
// loop waits for that before it ends.
func (a *acceptor) removeRequest(req *ConnRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.pending, req)
	if a.closing && len(a.pending) == 0 {
		a.engine.loops[0].Wake()
	}
}

// empty reports whether the door is shut and nobody stands there.
func (a *acceptor) drained() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closing && len(a.pending) == 0
}

// close turns everybody away, and lets nobody in any more.
func (a *acceptor) close() (err error) {
	a.mu.Lock()
	a.closing = true
	listeners := slices.Collect(maps.Keys(a.listeners))
	waiting := slices.Collect(maps.Keys(a.pending))
	a.mu.Unlock()
	for _, ln := range listeners {
		err = firstError(err, ln.Close())
	}
	for _, req := range waiting {
		a.rejectShutdown(req)
	}
	return err
}

// dismiss rejects a request because the engine is shutting down.
func (a *acceptor) rejectShutdown(req *ConnRequest) {
	if req.decide(byEngine) {
		a.engine.rejects.Add(1)
		_ = a.reject(req, nil) // the peer may have left
	}
}
