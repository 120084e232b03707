//go:build linux

package soft

import (
	"bytes"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// incoming makes an ID for a request that came to the listener i, or nil when it
// is none for this listener, or none that it has room for. The new ID takes the
// carrier over.
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
		child.negotiated.setPeer(&m.qpParams, &ch.dev.attr)
		child.negotiated.retry = m.retry // the active side's rules both
		child.negotiated.psn = randomUint32() & max24
		child.negotiated.mtu = m.mtu
	case *sidrReqMsg:
		if i.ps != cm.UDP {
			return nil
		}
		to, ev.PrivateData = m.endpoints, m.private
	}
	if !i.port.addr.covers(to.dst) {
		return nil
	}
	child.state, child.conn, child.parent = stateREQReceived, c, i
	child.local, child.remote, child.bound, child.opts = to.dst, to.src, ch.dev, i.opts
	if m, ok := m.(*reqMsg); ok {
		child.negotiated.ackTimeout = child.ackTimeoutReceived(m.ackTimeout)
		if m.tos > 0 {
			child.opts.tos = m.tos // the path is the same both ways
		}
	}
	if i.pendingRequests >= i.backlog {
		// Only a lookup arrives here, and the kernel refuses it with the same status. The
		// gate stops taking connection requests when the backlog is full.
		_ = c.send(child.refusal(cm.RejectConsumer, nil, false))
		return nil
	}
	ch.queue.push(ev)
	if i.pendingRequests++; i.pendingRequests >= i.backlog && i.ps == cm.TCP {
		i.listeners.setAccepting(false)
	}
	return child
}

// fetched: the application has the request now, which makes room for another.
func (i *id) requestFetched() {
	l := i.parent
	i.parent = nil
	l.pendingRequests--
	l.listeners.setAccepting(true)
}

// evicted ends a passive side in favor of another request, because its peer has not
// proven that it receives messages. If the application has not fetched the request,
// it never sees it. If it has not answered the request, an event tells it, so that it
// can close the ID. After Accept the connection ends as if nobody had confirmed the
// reply in time.
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
		// The carrier is still needed.
		return
	}
	i.conn.close()
	i.conn = nil
}

// Accept answers a request. Where it can not, the request is refused, and the
// queue pair spent; ErrPeerGone says that the client has left.
func (i *id) Accept(param *cm.ConnParam) error {
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
	i.negotiated.flow.sends = param.FlowControl
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

// acceptFailed refuses a request that could not be accepted because this side lacks a
// resource: memory, descriptors, or a usable queue pair. The queue pair goes to the
// error state. If the client has gone, acceptFailed returns that error instead,
// because the queue pair may have failed for the same reason.
func (i *id) acceptFailed(err error) error {
	if gone := i.conn.send(&rejMsg{reason: cm.RejectNoResources}); gone != nil {
		err = gone
	}
	i.enter(stateEnded)
	i.failQP()
	return err
}

// Reject refuses a request, or on an active ID the response.
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

// refusal returns the message that refuses a request. The reply to a lookup has a
// status instead of a reason; a lack of resources has the status that there is no
// queue pair (IBTA vol. 1, 12.11.2).
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

// onRTU: the active side got the reply. After Notify that is no news.
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

// Notify takes the application's word that the active side got the reply.
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
