//go:build linux

package connmgr

import (
	"bytes"
	"cmp"
	"errors"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/random"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// These constants are the longest times that a side waits for an answer of the peer. Each
// one, except maxServiceTime, is a multiple of 4.6 s or 4.1 s. The kernel's CM
// retransmits messages at the same intervals.
const (
	// requestTimeout, 73.7 s, is the longest wait for the answer to a REQ.
	requestTimeout = 16 * 4608 * time.Millisecond
	// sidrTimeout, 65.5 s, is the longest wait for the answer to a SIDR_REQ.
	sidrTimeout = 16 * 4096 * time.Millisecond
	// activeDREQTimeout, 73.7 s, is the longest wait of the active side for a DREP.
	activeDREQTimeout = 16 * 4608 * time.Millisecond
	// passiveDREQTimeout, 65.5 s, is the longest wait of the passive side for a DREP.
	passiveDREQTimeout = 16 * 4096 * time.Millisecond
	// rtuTimeout, 49 s, is the longest wait for an RTU. The wait is short, so that the
	// memory that a flood of requests takes is free again within a minute.
	rtuTimeout = 12 * 4096 * time.Millisecond
	// maxServiceTime is the longest wait for the peer if its MRAs ask for more time: 16.6
	// minutes, as in the kernel's CM.
	maxServiceTime = 4608*time.Millisecond + 15*(65536+512)*time.Millisecond
)

// Connect implements cm.TransportID. It sends a REQ, or a SIDR_REQ for a UD service.
func (i *id) Connect(param *cm.MessageParam) error {
	ch := i.lock()
	defer ch.unlock()
	to := endpoints{src: i.local, dst: i.remote}
	if i.ps == cm.UDP {
		return i.request(ch, &sidrReqMsg{to, bytes.Clone(param.PrivateData)}, sidrTimeout)
	}
	i.chooseQP(param)
	i.negotiated.psn = random.Uint32() & verbs.MaxPSN
	i.negotiated.retry, i.negotiated.flow.Sends = param.RetryCount, param.FlowControl
	i.negotiated.resources, i.negotiated.depth = param.ResponderResources, param.InitiatorDepth
	return i.request(ch, &reqMsg{
		endpoints: to, qpParams: i.localParams(param), retry: param.RetryCount, private: bytes.Clone(param.PrivateData),
		ackTimeout: i.ackTimeoutToSend(), tos: i.opts.tos,
	}, maxServiceTime)
}

// request sends m to the listener at the remote address, and starts the timer for the
// answer. If it returns an error, it has not sent m.
func (i *id) request(ch *channel, m message, timeout time.Duration) error {
	i.active = true
	i.state = stateREQSent
	i.timerLimit = ch.clock().Add(maxServiceTime)
	i.startTimer(timeout)
	if err := i.conn.dial(m); err != nil {
		i.state = stateIdle
		ch.timers.Stop(&i.timer)
		return err
	}
	return nil
}

// onREP handles a REP. If the ID has its own queue pair, onREP moves it to RTS and sends
// the RTU. Otherwise the application gets the event ConnectResponse, connects its queue
// pair, and calls Establish.
func (i *id) onREP(m *repMsg) bool {
	if i.state != stateREQSent || i.ps != cm.TCP {
		return false
	}
	// The REP can lower the numbers of READs and atomics that the REQ has offered. It can not
	// raise them.
	i.negotiated.setPeer(&m.qpParams, i.negotiated.resources, i.negotiated.depth)
	i.negotiated.ackTimeout = min(ackTimeoutCode(i.lifetime(), i.ackDelayReceived(m.ackDelay)), maxPeerTimeout)
	if err := i.connectQP(); err != nil {
		i.setupFailed(err, m)
		return true
	}
	ev := cm.TransportEvent{Type: cm.Established, Param: m.qpParams.param(), PrivateData: m.private}
	ev.Param.ResponderResources, ev.Param.InitiatorDepth = i.negotiated.resources, i.negotiated.depth
	if i.ownQP() == nil {
		ev.Type = cm.ConnectResponse
		i.enter(stateREPReceived)
		i.raise(ev)
		return true
	}
	i.enter(stateEstablished)
	i.raise(ev)
	// An error means that the peer has closed its socket. The channel will notice that and
	// call peerGone.
	_ = i.conn.send(&rtuMsg{})
	return true
}

// setupFailed ends a connection whose queue pair could not be moved to RTS. It sends a
// REJ. If the peer has already closed its socket, it calls peerGone instead.
func (i *id) setupFailed(err error, m *repMsg) {
	err = resource.Wrap(err)
	reason := cm.RejectConsumer
	if errors.Is(err, verbs.ErrNoResources) {
		reason = cm.RejectNoResources
	}
	if i.conn.send(&rejMsg{reason: reason}) != nil {
		i.peerGone()
		return
	}
	i.fail(cm.TransportEvent{Type: cm.ConnectError, Status: statusSetupFailed, Err: err, Param: m.qpParams.param(), PrivateData: m.private})
}

// Establish implements cm.TransportID. The application calls it when it has connected its
// queue pair. Establish sends the RTU.
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

// onREJ handles a REJ: the peer refuses a REQ or a REP, or cancels its own REQ.
func (i *id) onREJ(m *rejMsg) bool {
	switch i.state {
	case stateREQSent, stateREPReceived, stateREPSent:
		i.requestRejected(m)
	case stateREQReceived:
		i.enter(stateWithdrawn)
	case stateEstablished:
		// A passive side that was closed before the RTU has arrived sends a REJ instead of a
		// DREQ.
		return i.onDREQ()
	case stateDREQSent:
		i.disconnected(0)
	default:
		return false
	}
	return true
}

// requestRejected ends a request that the peer has refused. The application gets the
// event Rejected, or Unreachable for a SIDR request.
func (i *id) requestRejected(m *rejMsg) {
	ev := cm.TransportEvent{Type: cm.Rejected, Status: int(m.reason), ByApplication: m.byApplication, PrivateData: m.private, Err: cmp.Or(m.cause, userRefused(m.userRefused))}
	if i.ps == cm.UDP {
		ev.Type, ev.Status = cm.Unreachable, int(cm.SIDRReject)
	}
	i.fail(ev)
}

// errLocalOnly is the error of a request to an address of this host where no process
// listens on the local path. A device with both paths does not use the wire path to such
// an address.
var errLocalOnly = errors.New("no process listens on the local path, and PathAuto does not use the wire path to an address of this host")

// noListener ends a request for which no listener was found. The parameter cause is the
// field Err of the application's event; it may be nil.
func (i *id) noListener(cause error) {
	ev := cm.TransportEvent{Type: cm.Rejected, Status: int(cm.RejectInvalidServiceID)}
	if i.ps == cm.UDP {
		ev.Type, ev.Status = cm.Unreachable, int(cm.SIDRUnsupported)
	}
	ev.Err = cause
	i.fail(ev)
}

func (i *id) dialFailed(err error) {
	i.fail(cm.TransportEvent{Type: cm.ConnectError, Status: statusSetupFailed, Err: err})
}
