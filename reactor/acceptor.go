package reactor

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/reactor/internal/longmsg"
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
	mu sync.Mutex
	// The values of both maps are serial numbers, which give the order of close().
	listeners map[*Listener]uint64
	// Connection requests whose ID is on the acceptor's channel.
	pending map[*ConnRequest]uint64
	serial  uint64
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
		listeners: make(map[*Listener]uint64), pending: make(map[*ConnRequest]uint64),
	}, nil
}

func (a *acceptor) wakeCause() wakeCause { return wakeByConnection }

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
		ev.ID.SetUserData(req)
		a.pending[req] = a.nextSerial()
		act = func(l *Loop) { l.handleRequest(req) }
		if a.closing {
			act = func(*Loop) { a.rejectShutdown(req) }
		}
	case cm.Unreachable:
		if req, ok := ev.ID.UserData().(*ConnRequest); ok {
			req.endedBy = byPeer
			act = func(l *Loop) { l.cancelRequest(req, byPeer) }
		}
	case cm.DeviceRemoval:
		if req, ok := ev.ID.UserData().(*ConnRequest); ok {
			req.endedBy = byRemoval
			act = func(l *Loop) { l.cancelRequest(req, byRemoval) }
		} else if ln := a.removeListener(ev.ID); ln != nil {
			act = func(l *Loop) { l.closeListener(ln, ErrDeviceRemoved) }
		}
	}
	return act, ev.Ack()
}

// newRequest makes a ConnRequest from an event of type cm.ConnectRequest.
func (e *Engine) newRequest(ev *cm.Event) *ConnRequest {
	param := ev.Param
	param.PrivateData = nil
	data, limit, ok := ev.Param.PrivateData, uint32(0), false
	if e.cfg.MaxLongMessage > 0 {
		data, limit, ok = longmsg.SplitOffer(data, cm.MaxPrivateData(cm.TCP, cm.MessageConnect))
	}
	return &ConnRequest{
		engine: e, listener: ev.Listener.UserData().(*Listener), id: ev.ID,
		local: ev.ID.LocalAddr(), remote: ev.ID.RemoteAddr(), device: ev.ID.Device(),
		process: credentialsOf(ev.ID), privateData: data, hasOffer: ok, longLimit: limit, param: param,
	}
}

// decide records who answers the request. If the request was already answered, decide()
// returns false.
func (r *ConnRequest) decide(who decision) bool {
	return r.decided.CompareAndSwap(uint32(undecided), uint32(who))
}

// decisionErr returns the reason why the request can not be answered any more, or nil.
func (r *ConnRequest) decisionErr() error { return decision(r.decided.Load()).err() }

// A decision says who has answered a connection request, or why the request has ended
// without an answer.
type decision uint32

// The decisions. Only the first decision of a request counts.
const (
	undecided     decision = iota
	byApplication          // the application has called Accept or Reject
	byDeadline             // Config.Limits.DecisionTimeout has passed
	byEngine               // the engine has rejected the request
	byPeer                 // the peer has withdrawn the request
	byRemoval              // the device of the request was removed
)

// err returns the error of a further answer to the request. If there is no decision yet,
// err() returns nil.
func (d decision) err() error {
	switch d {
	case byApplication:
		return ErrDecided
	case byDeadline:
		return ErrExpired
	case byEngine:
		return ErrShutdown
	case byPeer:
		return verbs.ErrPeerGone
	case byRemoval:
		return ErrDeviceRemoved
	}
	return nil
}

// credentialsOf returns the credentials of the process that is the peer of the ID, or nil if
// they are not known.
func credentialsOf(id *cm.ID) *cm.Credentials {
	who, ok := id.Credentials()
	if !ok {
		return nil // The address of who would be an allocation here, too.
	}
	known := who
	return &known
}

// handleRequest chooses a loop for a request and calls OnConnectRequest. If the
// application does not answer at once, handleRequest sets the timer for
// Config.Limits.DecisionTimeout.
func (l *Loop) handleRequest(req *ConnRequest) {
	if req.decisionErr() != nil {
		// The engine is shutting down: acceptor.close has already rejected this request.
		return
	}
	l.logRequest(req)
	loop := l.engine.loopFor(req, l.clock.time())
	if loop == nil {
		l.rejectFull(req)
		return
	}
	req.loop.Store(loop)
	l.onConnectRequest(req)
	if req.decisionErr() != nil {
		return
	}
	req.expiry.Owner = timerheap.Func(func() { l.expireRequest(req) })
	l.setTimer(&req.expiry, l.cfg.Limits.DecisionTimeout)
}

// rejectFull rejects a request without asking the application, because all loops that it may
// get are known to be full.
func (l *Loop) rejectFull(req *ConnRequest) {
	if !req.decide(byEngine) { // The request was answered by rejectShutdown.
		return
	}
	l.stats.NoResources++
	req.logRejected("no room")
	l.engine.log.Warn("reactor: a request was rejected, because no loop that it may get has room: Config.MaxConns, or resources", "remote", req.remote)
	// The error is verbs.ErrPeerGone if the peer has given up the request. The engine
	// does not record that error.
	if err := l.engine.acceptor.rejectNoResources(req); !errors.Is(err, verbs.ErrPeerGone) {
		l.recordError(err)
	}
}

// What the engine tells peers whose requests it rejects by itself, as private data.
const (
	saysExpired  = "the server has not answered the request in time"
	saysShutdown = "the server is shutting down"
)

// expireRequest is called when Config.Limits.DecisionTimeout has passed. It rejects the
// request, unless the request was answered.
func (l *Loop) expireRequest(req *ConnRequest) {
	if !req.decide(byDeadline) {
		return
	}
	l.stats.Expired++
	req.logRejected("not answered in time")
	l.engine.log.Warn("reactor: a request was rejected, because it was not answered within Config.Limits.DecisionTimeout", "remote", req.remote)
	// The error is verbs.ErrPeerGone if the peer has given up the request. The engine
	// does not record that error.
	if err := l.engine.acceptor.reject(req, []byte(saysExpired)); !errors.Is(err, verbs.ErrPeerGone) {
		l.recordError(err)
	}
}

// cancelRequest closes the ID of a request that has ended without an answer. If the
// application has answered meanwhile, cancelRequest does nothing: the answer fails
// because of ConnRequest.endedBy.
func (l *Loop) cancelRequest(req *ConnRequest, endedBy decision) {
	if !req.decide(endedBy) {
		return
	}
	req.logRejected(endedBy.err().Error())
	l.timers.Stop(&req.expiry)
	l.recordError(req.id.Close())
	l.engine.acceptor.removeRequest(req)
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
	for _, ln := range inOrder(a.listeners) {
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

// nextSerial returns the next serial number. The caller holds mu.
func (a *acceptor) nextSerial() uint64 {
	a.serial++
	return a.serial
}

// inOrder returns the keys of a map in the order of their serial numbers.
func inOrder[K comparable](m map[K]uint64) []K {
	return slices.SortedFunc(maps.Keys(m), func(a, b K) int { return cmp.Compare(m[a], m[b]) })
}

// removeRequest removes a request whose ID was closed or moved. During a shutdown, the
// first loop waits until no request is left. removeRequest then wakes it.
func (a *acceptor) removeRequest(req *ConnRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.pending, req)
	if a.closing && len(a.pending) == 0 {
		a.engine.loops[0].wake()
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
	listeners, pending := inOrder(a.listeners), inOrder(a.pending)
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
		req.logRejected(saysShutdown)
		_ = a.reject(req, []byte(saysShutdown)) // the reject fails only if the peer has given up the request
	}
}

// loopFor chooses the loop for a request at a listener: ListenOptions.Loop, or else the first
// loop after nextLoop that is not full. It returns nil if all of these are full.
func (e *Engine) loopFor(req *ConnRequest, now time.Time) *Loop {
	if l := req.listener.options.Loop; l != nil {
		if l.full(req.device, now) {
			return nil
		}
		return l
	}
	l := e.nextLoop()
	for range e.loops {
		if !l.full(req.device, now) {
			return l
		}
		l = e.loops[(l.index+1)%len(e.loops)]
	}
	return nil
}

// owns reports whether l is a loop of the engine.
func (e *Engine) owns(l *Loop) bool { return l != nil && l.engine == e }

// nextLoop returns the loop with the fewest connections. If there are several, they take turns.
func (e *Engine) nextLoop() *Loop {
	n := uint64(len(e.loops))
	first := e.chosen.Add(1) - 1
	best := e.loops[first%n]
	for i := range n {
		if l := e.loops[(first+i)%n]; l.load.Load() < best.load.Load() {
			best = l
		}
	}
	return best
}

// fullRetry is how long the engine does not choose a loop that had no room for a
// connection. Arbitrary.
const fullRetry = time.Second

// fullLoops records which loops had no room for another connection on a device. The
// engine chooses other loops for connections on this device. Any goroutine may call its
// methods.
type fullLoops struct {
	mu      sync.Mutex
	entries map[loopOnDevice]fullRecord
}

// A loopOnDevice identifies a loop and a device.
type loopOnDevice struct {
	loop *Loop
	dev  verbs.Device
}

// A fullRecord says when a loop had no room for another connection on a device.
type fullRecord struct {
	conns int64     // number of connections of the loop when it had no room
	tried time.Time // time of the last try to make a connection
}

// record stores that k.loop had no room for another connection on k.dev. The parameter
// conns is the number of connections that k.loop had at that time.
func (f *fullLoops) record(k loopOnDevice, conns int64, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.entries == nil {
		f.entries = make(map[loopOnDevice]fullRecord)
	}
	f.entries[k] = fullRecord{conns: conns, tried: now}
}

// clear removes the record of k, because k.loop had room for a connection on k.dev.
func (f *fullLoops) clear(k loopOnDevice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.entries, k)
}

// full reports whether k.loop is known to have no room on k.dev. When connections have
// ended or fullRetry has passed, the engine may try the loop again, and the result is
// false.
func (f *fullLoops) full(k loopOnDevice, conns int64, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	entry, ok := f.entries[k]
	if !ok {
		return false
	}
	if conns < entry.conns || now.Sub(entry.tried) >= fullRetry {
		entry.tried = now
		f.entries[k] = entry
		return false
	}
	return true
}

// full reports whether the loop has MaxConns connections, or is known to have no room on
// dev.
func (l *Loop) full(dev verbs.Device, now time.Time) bool {
	conns := l.load.Load()
	if conns >= int64(l.cfg.MaxConns) {
		return true
	}
	return l.engine.fullLoops.full(loopOnDevice{l, dev}, conns, now)
}

// recordRoom records whether the loop had room for a connection on dev. Loop.load must
// still include the connection.
func (l *Loop) recordRoom(dev verbs.Device, room bool) {
	k := loopOnDevice{l, dev}
	if room {
		l.engine.fullLoops.clear(k)
		return
	}
	l.engine.fullLoops.record(k, l.load.Load()-1, l.clock.time())
}
