//go:build linux

package soft

import (
	"bytes"
	"cmp"
	"errors"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// How long a side waits for an answer: that of the kernel's sixteen attempts,
// for the packet lifetime it assumes on RoCE. A message on the local path is
// never lost, so it is sent once; what is waited for is the peer's application.
const (
	requestTimeout = 16 * 4608 * time.Millisecond // REQ, and DREQ of the active side
	sidrTimeout    = 16 * 4096 * time.Millisecond // timeout of SIDR_REQ, and of DREQ of the passive side
	// rtuTimeout, 49 s, is how long a reply waits to be confirmed. The kernel waits
	// for sixteen times 4.1 s. This device waits for twelve times 4.1 s, so that the
	// memory of a flood of requests is free again within a minute.
	rtuTimeout = 12 * 4096 * time.Millisecond
	// patience, 16.6 minutes, is the longest that a side waits when the peer has
	// confirmed the message and its application has not answered yet. The kernel's CM
	// waits 4.6 s for its first attempt. The MRA that answers the second attempt allows
	// 65.5 s of service time and 0.5 s of transfer time, for each of fifteen more
	// attempts.
	maxServiceTime = 4608*time.Millisecond + 15*(65536+512)*time.Millisecond
)

// Connect sends a connection request, or a lookup.
func (i *id) Connect(param *cm.ConnParam) error {
	ch := i.lock()
	defer ch.unlock()
	to := endpoints{src: i.local, dst: i.remote}
	if i.ps == cm.UDP {
		return i.request(ch, &sidrReqMsg{to, bytes.Clone(param.PrivateData)}, sidrTimeout)
	}
	i.chooseQP(param)
	i.negotiated.psn = randomUint32() & max24
	i.negotiated.retry, i.negotiated.flow.sends = param.RetryCount, param.FlowControl
	return i.request(ch, &reqMsg{
		endpoints: to, qpParams: i.localParams(param), retry: param.RetryCount, private: bytes.Clone(param.PrivateData),
		ackTimeout: i.ackTimeoutToSend(), tos: i.opts.tos,
	}, maxServiceTime)
}

// request sends m to the listener at the remote address. If there is no listener, an
// event says so. If request returns an error, nothing was sent. The local path waits
// for the whole timeout, because the peer receives the request at once; see dialMAD
// for the wire path.
func (i *id) request(ch *channel, m message, timeout time.Duration) error {
	i.active = true
	i.state = stateREQSent
	i.timerLimit = ch.clock().Add(maxServiceTime)
	i.startTimer(timeout)
	if err := i.dial(m); err != nil {
		i.state = stateIdle
		ch.timers.stop(&i.timer)
		return err
	}
	return nil
}

// onREP: the connection was accepted.
func (i *id) onREP(m *repMsg) bool {
	if i.state != stateREQSent || i.ps != cm.TCP {
		return false
	}
	i.negotiated.setPeer(&m.qpParams, &i.bound.attr)
	i.negotiated.ackTimeout = ackTimeoutCode(i.lifetime(), cmp.Or(m.ackDelay, i.bound.attr.LocalCAAckDelay))
	if err := i.connectQP(); err != nil {
		i.setupFailed(err, m)
		return true
	}
	ev := cm.TransportEvent{Type: cm.Established, Param: m.qpParams.param(), PrivateData: m.private}
	if i.ownQP() == nil {
		ev.Type = cm.ConnectResponse
		i.enter(stateREPReceived)
		i.raise(ev)
		return true
	}
	i.enter(stateEstablished)
	i.raise(ev)
	// Failing is as if the peer had closed right after: its end is noticed.
	_ = i.conn.send(&rtuMsg{})
	return true
}

// setupFailed: the data path that the reply offers can not be used, or the peer
// has gone since, which the queue pair may notice first.
func (i *id) setupFailed(err error, m *repMsg) {
	err = noResources(err)
	reason := cm.RejectConsumer
	if errors.Is(err, verbs.ErrNoResources) {
		reason = cm.RejectNoResources
	}
	if i.conn.send(&rejMsg{reason: reason}) != nil {
		i.peerGone()
		return
	}
	i.enter(stateEnded)
	i.failQP()
	i.raise(cm.TransportEvent{Type: cm.ConnectError, Status: statusSetupFailed, Err: err, Param: m.qpParams.param(), PrivateData: m.private})
}

// statusSetupFailed is the status of ConnectError (rdma_get_cm_event(3)).
const statusSetupFailed = -1

// Establish completes a connection whose queue pair is the application's.
func (i *id) Establish() error {
	ch := i.lock()
	defer ch.unlock()
	if i.state != stateREPReceived {
		return verbs.ErrPeerGone
	}
	if err := i.conn.send(&rtuMsg{}); err != nil {
		return err
	}
	i.enter(stateEstablished)
	return nil
}

// onREJ: the peer turned the request away, or took it back.
func (i *id) onREJ(m *rejMsg) bool {
	switch i.state {
	case stateREQSent, stateREPReceived, stateREPSent:
		i.requestRejected(m)
	case stateREQReceived:
		i.enter(stateWithdrawn)
	case stateEstablished:
		// A passive side that went before it saw that this one is ready.
		return i.onDREQ()
	case stateDREQSent:
		i.disconnected(0)
	default:
		return false
	}
	return true
}

// refused ends the request with the event of the port space.
func (i *id) requestRejected(m *rejMsg) {
	i.enter(stateEnded)
	i.failQP()
	ev := cm.TransportEvent{Type: cm.Rejected, Status: int(m.reason), ByApplication: m.byApplication, PrivateData: m.private, Err: cmp.Or(m.cause, userRefused(m.user))}
	if i.ps == cm.UDP {
		ev.Type, ev.Status = cm.Unreachable, int(cm.SIDRReject)
	}
	i.raise(ev)
}
