//go:build linux

package connmgr

import (
	"bytes"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/random"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// incoming makes an ID for a request to the listening ID i, and queues the event
// ConnectRequest. The new ID owns the connection c. If incoming() refuses the request, it
// returns nil.
func (i *id) incoming(m message, c cmConn) *id {
	ch := i.ch.Load()
	child := newID(ch, i.ps)
	ev := cm.TransportEvent{Type: cm.ConnectRequest, ID: child, Listener: i}
	var to endpoints
	switch m := m.(type) {
	case *reqMsg:
		if i.ps != cm.TCP {
			return nil
		}
		to, ev.PrivateData, ev.Param = m.endpoints, m.private, m.qpParams.param()
		ev.Param.RetryCount = m.retry
		child.negotiated.setPeer(&m.qpParams, i.m.limits.MaxQPRdAtom, i.m.limits.MaxQPInitRdAtom)
		child.negotiated.retry = m.retry // The active side chooses one retry count for both sides.
		child.negotiated.psn = random.Uint32() & verbs.MaxPSN
		child.negotiated.mtu = m.mtu
	case *sidrReqMsg:
		if i.ps != cm.UDP {
			return nil
		}
		to, ev.PrivateData = m.endpoints, m.private
	}
	if !i.reservation.Addr.Covers(to.dst) {
		return nil
	}
	child.state, child.conn, child.parent = stateREQReceived, c, i
	child.local, child.remote, child.located, child.opts = to.dst, to.src, true, i.opts
	if m, ok := m.(*reqMsg); ok {
		child.negotiated.ackTimeout = child.ackTimeoutReceived(m.ackTimeout)
		if m.tos > 0 {
			child.opts.tos = m.tos // Both directions use the same type of service.
		}
	}
	if i.pendingRequests >= i.backlog {
		// This is a SIDR request, because connection requests wait or are dropped while
		// the backlog is full. The kernel refuses a SIDR request with the same status.
		_ = c.send(child.refusal(cm.RejectConsumer, nil, false))
		return nil
	}
	ch.queue.push(ev)
	if i.pendingRequests++; i.pendingRequests >= i.backlog && i.ps == cm.TCP {
		i.listeners.setAccepting(false)
	}
	return child
}

// requestFetched removes the request i from the backlog of its listener. The backlog then
// has room, so the listener accepts requests again.
func (i *id) requestFetched() {
	l := i.parent
	i.parent = nil
	l.pendingRequests--
	l.listeners.setAccepting(true)
}

// requestWithdrawn ends the passive side of an evicted connection. If the application has
// fetched the request, it gets an event.
func (i *id) requestWithdrawn() {
	ch := i.ch.Load()
	switch i.state {
	case stateREQReceived, stateWithdrawn:
		if i.parent != nil {
			i.enter(stateEnded)
			ch.queue.extract(i)
			i.requestFetched()
			break
		}
		i.unreachable(statusTimedOut, nil)
	case stateREPSent:
		_ = i.conn.send(&rejMsg{reason: cm.RejectNoResources})
		i.unreachable(statusTimedOut, nil)
	case stateDREQSent:
		i.disconnected(statusTimedOut)
	default:
		// In all other states, eviction has no effect.
		return
	}
	i.closeConn()
}

// Accept implements cm.TransportID. If Accept returns an error, it has refused the
// request and moved the queue pair to the error state. The error verbs.ErrPeerGone means
// that the request is no longer valid.
func (i *id) Accept(param *cm.MessageParam) error {
	ch := i.lock()
	defer ch.unlock()
	if i.state != stateREQReceived {
		i.failQP()
		return verbs.ErrPeerGone
	}
	if i.ps == cm.UDP {
		return i.acceptLookup(param)
	}
	i.chooseQP(param)
	i.negotiated.resources, i.negotiated.depth = param.ResponderResources, param.InitiatorDepth
	i.negotiated.flow.Sends = param.FlowControl
	if err := i.connectQP(); err != nil {
		return i.acceptFailed(err)
	}
	if err := i.conn.send(&repMsg{qpParams: i.localParams(param), private: bytes.Clone(param.PrivateData)}); err != nil {
		return i.acceptFailed(err)
	}
	i.enter(stateREPSent)
	i.timerLimit = ch.clock().Add(maxServiceTime)
	i.startTimer(rtuTimeout)
	return nil
}

// acceptFailed refuses a request after the error err of Accept, and moves the queue pair
// to the error state. It returns verbs.ErrPeerGone if the client has closed the
// connection, and otherwise err.
func (i *id) acceptFailed(err error) error {
	if gone := i.conn.send(&rejMsg{reason: cm.RejectNoResources}); gone != nil {
		err = gone
	}
	i.enter(stateEnded)
	i.failQP()
	return err
}

// Reject implements cm.TransportID. It refuses a REQ, a SIDR_REQ or a REP.
func (i *id) Reject(reason cm.RejectReason, private []byte) error {
	ch := i.lock()
	defer ch.unlock()
	if i.state != stateREQReceived && i.state != stateREPReceived {
		return verbs.ErrPeerGone
	}
	err := i.conn.send(i.refusal(reason, bytes.Clone(private), reason == cm.RejectConsumer))
	i.enter(stateEnded)
	i.failQP()
	return err
}

// refusal returns the message that refuses a request: a REJ with the reason for a REQ,
// and a SIDR_REP with a status for a SIDR_REQ (IBTA vol. 1, 12.11.2).
func (i *id) refusal(reason cm.RejectReason, private []byte, byApplication bool) message {
	if i.ps == cm.TCP {
		return &rejMsg{reason: reason, byApplication: byApplication, private: private}
	}
	status := cm.SIDRReject
	if reason == cm.RejectNoResources {
		status = cm.SIDRNoQP
	}
	return &sidrRepMsg{status: status, byApplication: byApplication, private: private}
}

// onRTU handles an RTU, which confirms the REP. If Notify has established the
// connection, the first RTU only clears i.notified. onRTU returns false if the state
// does not allow an RTU.
func (i *id) onRTU() bool {
	switch {
	case i.state == stateREPSent:
		i.replyConfirmed()
	case i.notified:
		i.notified = false
	default:
		return false
	}
	return true
}

// Notify implements cm.TransportID. The application calls it when data has arrived before
// the RTU. The data proves that the peer has received the REP.
func (i *id) Notify(verbs.AsyncEventType) error {
	ch := i.lock()
	defer ch.unlock()
	switch i.state {
	case stateREPSent:
		i.notified = true
		i.replyConfirmed()
		return nil
	case stateEstablished:
		return verbs.ErrState
	}
	return verbs.ErrPeerGone
}

func (i *id) replyConfirmed() {
	i.enter(stateEstablished)
	i.raise(cm.TransportEvent{Type: cm.Established})
}
