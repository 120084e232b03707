//go:build linux

package connmgr

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Listen implements cm.TransportID. The backlog is the largest number of requests that
// the application has not fetched. When the backlog is full, connection requests get no
// answer, and SIDR requests are refused.
func (i *ID) Listen(backlog int) error {
	ch := i.lock()
	defer ch.unlock()
	if err := i.reservation.Claim(); err != nil {
		return hostport.ExplainClash(err)
	}
	i.backlog = backlog
	return i.openListeners()
}

// Incoming makes an ID for a request to the listening ID i, and queues the event
// ConnectRequest. The new ID owns the connection c. If Incoming() refuses the request, it
// returns nil.
func (i *ID) Incoming(m Message, c Conn) *ID {
	ch := i.ch.Load()
	child := newID(ch, i.ps)
	ev := cm.TransportEvent{Type: cm.ConnectRequest, ID: child, Listener: i}
	var to Endpoints
	switch m := m.(type) {
	case *REQ:
		if i.ps != cm.TCP {
			return nil
		}
		to, ev.PrivateData, ev.Param = m.Endpoints, m.Private, m.QPParams.param()
		ev.Param.RetryCount = m.Retry
		child.negotiated.setPeer(&m.QPParams, i.m.limits.MaxQPRdAtom, i.m.limits.MaxQPInitRdAtom)
		child.negotiated.retry = m.Retry // The active side chooses one retry count for both sides.
		child.negotiated.psn = i.m.random.Uint32() & verbs.MaxPSN
		child.negotiated.mtu = m.MTU
	case *SIDRREQ:
		if i.ps != cm.UDP {
			return nil
		}
		to, ev.PrivateData = m.Endpoints, m.Private
	}
	if !i.reservation.Addr.Covers(to.Dst) {
		return nil
	}
	child.state, child.conn, child.parent = StateREQReceived, c, i
	child.local, child.remote, child.located, child.opts = to.Dst, to.Src, true, i.opts
	if m, ok := m.(*REQ); ok {
		child.negotiated.ackTimeout = child.ackTimeoutReceived(m.AckTimeout)
		if m.TOS > 0 {
			child.opts.tos = m.TOS // Both directions use the same type of service.
		}
	}
	if i.pendingRequests >= i.backlog {
		// This is a SIDR request, because connection requests wait or are dropped while
		// the backlog is full. The kernel refuses a SIDR request with the same status.
		_ = c.Send(child.refusal(cm.RejectConsumer, nil, false))
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
func (i *ID) requestFetched() {
	l := i.parent
	i.parent = nil
	l.pendingRequests--
	l.listeners.setAccepting(true)
}

// Withdraw ends the passive side of an evicted connection. If the application has
// fetched the request, it gets an event.
func (i *ID) Withdraw() {
	ch := i.ch.Load()
	switch i.state {
	case StateREQReceived, StateWithdrawn:
		if i.parent != nil {
			i.enter(StateEnded)
			ch.queue.extract(i)
			i.requestFetched()
			break
		}
		i.unreachable(StatusTimedOut, nil)
	case StateREPSent:
		_ = i.conn.Send(&REJ{Reason: cm.RejectNoResources})
		i.unreachable(StatusTimedOut, nil)
	case StateDREQSent:
		i.disconnected(StatusTimedOut)
	default:
		// In all other states, eviction has no effect.
		return
	}
	i.closeConn()
}

// Accept implements cm.TransportID. If Accept returns an error, it has refused the
// request and moved the queue pair to the error state. The error verbs.ErrPeerGone means
// that the request is no longer valid.
func (i *ID) Accept(param *cm.MessageParam) error {
	ch := i.lock()
	defer ch.unlock()
	if i.state != StateREQReceived {
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
	if err := i.conn.Send(&REP{QPParams: i.localParams(param), Private: bytes.Clone(param.PrivateData)}); err != nil {
		return i.acceptFailed(err)
	}
	i.enter(StateREPSent)
	i.timerLimit = ch.clock().Add(MaxServiceTime)
	i.StartTimer(RTUTimeout)
	return nil
}

// acceptFailed refuses a request after the error err of Accept, and moves the queue pair
// to the error state. It returns verbs.ErrPeerGone if the client has closed the
// connection, and otherwise err.
func (i *ID) acceptFailed(err error) error {
	if gone := i.conn.Send(&REJ{Reason: cm.RejectNoResources}); gone != nil {
		err = gone
	}
	i.enter(StateEnded)
	i.failQP()
	return err
}

// Reject implements cm.TransportID. It refuses a REQ, a SIDR_REQ or a REP.
func (i *ID) Reject(reason cm.RejectReason, private []byte) error {
	ch := i.lock()
	defer ch.unlock()
	if i.state != StateREQReceived && i.state != StateREPReceived {
		return verbs.ErrPeerGone
	}
	err := i.conn.Send(i.refusal(reason, bytes.Clone(private), reason == cm.RejectConsumer))
	i.enter(StateEnded)
	i.failQP()
	return err
}

// refusal returns the message that refuses a request: a REJ with the reason for a REQ,
// and a SIDR_REP with a status for a SIDR_REQ (IBTA vol. 1, 12.11.2).
func (i *ID) refusal(reason cm.RejectReason, private []byte, byApplication bool) Message {
	if i.ps == cm.TCP {
		return &REJ{Reason: reason, ByApplication: byApplication, Private: private}
	}
	status := cm.SIDRReject
	if reason == cm.RejectNoResources {
		status = cm.SIDRNoQP
	}
	return &SIDRREP{Status: status, ByApplication: byApplication, Private: private}
}

// onRTU handles an RTU, which confirms the REP. If Notify has established the
// connection, the first RTU only clears i.notified. onRTU returns false if the state
// does not allow an RTU.
func (i *ID) onRTU() bool {
	switch {
	case i.state == StateREPSent:
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
func (i *ID) Notify(verbs.AsyncEventType) error {
	ch := i.lock()
	defer ch.unlock()
	switch i.state {
	case StateREPSent:
		i.notified = true
		i.replyConfirmed()
		return nil
	case StateEstablished:
		return fmt.Errorf("%w: the connection is established", verbs.ErrState)
	}
	return verbs.ErrPeerGone
}

func (i *ID) replyConfirmed() {
	i.enter(StateEstablished)
	i.raise(cm.TransportEvent{Type: cm.Established})
}

// acceptLookup accepts a SIDR request. It sends the queue pair number and the Q_Key to
// the active side.
func (i *ID) acceptLookup(param *cm.MessageParam) error {
	i.chooseQP(param)
	reply := &SIDRREP{QPN: i.qpn, QKey: cm.DefaultQKey, Private: bytes.Clone(param.PrivateData)}
	if i.ownQP() == nil {
		reply.QKey = cmp.Or(param.QKey, cm.DefaultQKey)
	}
	err := i.conn.Send(reply)
	i.enter(StateEnded)
	return err
}
