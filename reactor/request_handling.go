package reactor

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newRequest makes a ConnRequest from an event of type cm.ConnectRequest.
func (e *Engine) newRequest(ev *cm.Event) *ConnRequest {
	param := ev.Param
	param.PrivateData = nil
	data, limit, ok := ev.Param.PrivateData, uint32(0), false
	if e.cfg.MaxLongMessage > 0 {
		data, limit, ok = splitOffer(data, cm.MaxPrivateData(cm.TCP, cm.MessageConnect))
	}
	return &ConnRequest{
		engine: e, listener: ev.Listener.Context().(*Listener), id: ev.ID,
		local: ev.ID.LocalAddr(), remote: ev.ID.RemoteAddr(), device: ev.ID.Device(),
		process: processOf(ev.ID), privateData: data, hasOffer: ok, longLimit: limit, param: param,
	}
}

// handleRequest chooses a loop for a request and calls OnConnectRequest. If the
// application does not answer at once, handleRequest sets the timer for
// Config.DecisionTimeout.
func (l *Loop) handleRequest(req *ConnRequest) {
	if req.decisionErr() != nil {
		// The engine is shutting down: acceptor.close has already rejected this request.
		return
	}
	loop := l.engine.loopFor(req, l.clock.time())
	if loop == nil {
		l.rejectFull(req)
		return
	}
	if req.decisionErr() != nil { // Config.Place has already rejected the request
		return
	}
	req.loop.Store(loop)
	l.onConnectRequest(req)
	if req.decisionErr() != nil {
		return
	}
	req.expiry.Owner = timerheap.Func(func() { l.expireRequest(req) })
	l.setTimer(&req.expiry, l.cfg.DecisionTimeout)
}

// rejectFull rejects a request without asking the application, because all loops are
// known to be full.
func (l *Loop) rejectFull(req *ConnRequest) {
	if !req.decide(byEngine) { // The request was answered by Config.Place or rejectShutdown.
		return
	}
	l.stats.NoResources++
	// The error is verbs.ErrPeerGone if the peer has given up the request. The engine
	// does not record that error.
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
	// The error is verbs.ErrPeerGone if the peer has given up the request. The engine
	// does not record that error.
	if err := l.engine.acceptor.reject(req, nil); !errors.Is(err, verbs.ErrPeerGone) {
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
	l.timers.Stop(&req.expiry)
	l.recordError(req.id.Close())
	l.engine.acceptor.removeRequest(req)
}
