//go:build linux

package connmgr

import (
	"bytes"
	"cmp"
	"errors"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// These constants are the longest times that a side waits for an answer of the peer. Each
// one, except MaxServiceTime, is a multiple of 4.6 s or 4.1 s. The kernel's CM
// retransmits messages at the same intervals.
const (
	// RequestTimeout, 73.7 s, is the longest wait for the answer to a REQ.
	RequestTimeout = 16 * 4608 * time.Millisecond
	// SIDRTimeout, 65.5 s, is the longest wait for the answer to a SIDR_REQ.
	SIDRTimeout = 16 * 4096 * time.Millisecond
	// activeDREQTimeout, 73.7 s, is the longest wait of the active side for a DREP.
	activeDREQTimeout = 16 * 4608 * time.Millisecond
	// passiveDREQTimeout, 65.5 s, is the longest wait of the passive side for a DREP.
	passiveDREQTimeout = 16 * 4096 * time.Millisecond
	// RTUTimeout, 49 s, is the longest wait for an RTU. The wait is short, so that the
	// memory that a flood of requests takes is free again within a minute.
	RTUTimeout = 12 * 4096 * time.Millisecond
	// MaxServiceTime is the longest wait for the peer if its MRAs ask for more time: 16.6
	// minutes, as in the kernel's CM.
	MaxServiceTime = 4608*time.Millisecond + 15*(65536+512)*time.Millisecond
)

// Connect implements cm.TransportID. It sends a REQ, or a SIDR_REQ for a UD service.
func (i *ID) Connect(param *cm.MessageParam) error {
	ch := i.lock()
	defer ch.unlock()
	to := Endpoints{Src: i.local, Dst: i.remote}
	if i.ps == cm.UDP {
		return i.request(ch, &SIDRREQ{Endpoints: to, Private: bytes.Clone(param.PrivateData)}, SIDRTimeout)
	}
	i.chooseQP(param)
	i.negotiated.psn = i.m.random.Uint32() & verbs.MaxPSN
	i.negotiated.retry, i.negotiated.flow.Sends = param.RetryCount, param.FlowControl
	i.negotiated.resources, i.negotiated.depth = param.ResponderResources, param.InitiatorDepth
	return i.request(ch, &REQ{
		Endpoints: to, QPParams: i.localParams(param), Retry: param.RetryCount, Private: bytes.Clone(param.PrivateData),
		AckTimeout: i.ackTimeoutToSend(), TOS: i.opts.tos,
	}, MaxServiceTime)
}

// request sends m to the listener at the remote address, and starts the timer for the
// answer. If it returns an error, it has not sent m.
func (i *ID) request(ch *Channel, m Message, timeout time.Duration) error {
	i.active = true
	i.state = StateREQSent
	i.timerLimit = ch.clock().Add(MaxServiceTime)
	i.StartTimer(timeout)
	if err := i.conn.Dial(m); err != nil {
		i.state = StateIdle
		ch.timers.Stop(&i.timer)
		return err
	}
	return nil
}

// onREP handles a REP. If the ID has its own queue pair, onREP moves it to RTS and sends
// the RTU. Otherwise the application gets the event ConnectResponse, connects its queue
// pair, and calls Establish.
func (i *ID) onREP(m *REP) bool {
	if i.state != StateREQSent || i.ps != cm.TCP {
		return false
	}
	// The REP can lower the numbers of READs and atomics that the REQ has offered. It can not
	// raise them.
	i.negotiated.setPeer(&m.QPParams, i.negotiated.resources, i.negotiated.depth)
	i.negotiated.ackTimeout = min(ackTimeoutCode(i.lifetime(), i.ackDelayReceived(m.AckDelay)), maxPeerTimeout)
	if err := i.connectQP(); err != nil {
		i.setupFailed(err, m)
		return true
	}
	ev := cm.TransportEvent{Type: cm.Established, Param: m.QPParams.param(), PrivateData: m.Private}
	ev.Param.ResponderResources, ev.Param.InitiatorDepth = i.negotiated.resources, i.negotiated.depth
	if i.ownQP() == nil {
		ev.Type = cm.ConnectResponse
		i.enter(StateREPReceived)
		i.raise(ev)
		return true
	}
	i.enter(StateEstablished)
	i.raise(ev)
	// An error means that the peer has closed its socket. The channel will notice that and
	// call PeerGone.
	_ = i.conn.Send(&RTU{})
	return true
}

// setupFailed ends a connection whose queue pair could not be moved to RTS. It sends a
// REJ. If the peer has already closed its socket, it calls PeerGone instead.
func (i *ID) setupFailed(err error, m *REP) {
	err = resource.Wrap(err)
	reason := cm.RejectConsumer
	if errors.Is(err, verbs.ErrNoResources) {
		reason = cm.RejectNoResources
	}
	if i.conn.Send(&REJ{Reason: reason}) != nil {
		i.PeerGone()
		return
	}
	i.fail(cm.TransportEvent{Type: cm.ConnectError, Status: StatusSetupFailed, Err: err, Param: m.QPParams.param(), PrivateData: m.Private})
}

// Establish implements cm.TransportID. The application calls it when it has connected its
// queue pair. Establish sends the RTU.
func (i *ID) Establish() error {
	ch := i.lock()
	defer ch.unlock()
	if i.state != StateREPReceived {
		return verbs.ErrPeerGone
	}
	if err := i.conn.Send(&RTU{}); err != nil {
		return err
	}
	i.enter(StateEstablished)
	return nil
}

// onREJ handles a REJ: the peer refuses a REQ or a REP, or cancels its own REQ.
func (i *ID) onREJ(m *REJ) bool {
	switch i.state {
	case StateREQSent, StateREPReceived, StateREPSent:
		i.requestRejected(m)
	case StateREQReceived:
		i.enter(StateWithdrawn)
	case StateEstablished:
		// A passive side that was closed before the RTU has arrived sends a REJ instead of a
		// DREQ.
		return i.onDREQ(&DREQ{})
	case StateDREQSent:
		i.disconnected(0)
	default:
		return false
	}
	return true
}

// requestRejected ends a request that the peer has refused. The application gets the
// event Rejected, or Unreachable for a SIDR request.
func (i *ID) requestRejected(m *REJ) {
	ev := cm.TransportEvent{Type: cm.Rejected, Status: int(m.Reason), ByApplication: m.ByApplication, PrivateData: m.Private, Err: cmp.Or(m.Cause, userRefused(m.UserRefused))}
	if i.ps == cm.UDP {
		ev.Type, ev.Status = cm.Unreachable, int(cm.SIDRReject)
	}
	i.fail(ev)
}

// ErrLocalOnly is the error of a request to an address of this host where no process
// listens on the local path. A device with both paths does not use the wire path to such
// an address.
var ErrLocalOnly = errors.New("no process listens on the local path, and PathAuto does not use the wire path to an address of this host")

// NoListener ends a request for which no listener was found. The parameter cause is the
// field Err of the application's event; it may be nil.
func (i *ID) NoListener(cause error) {
	ev := cm.TransportEvent{Type: cm.Rejected, Status: int(cm.RejectInvalidServiceID)}
	if i.ps == cm.UDP {
		ev.Type, ev.Status = cm.Unreachable, int(cm.SIDRUnsupported)
	}
	ev.Err = cause
	i.fail(ev)
}

// DialFailed ends a request that could not be sent.
func (i *ID) DialFailed(err error) {
	i.fail(cm.TransportEvent{Type: cm.ConnectError, Status: StatusSetupFailed, Err: err})
}

// onSIDRREP handles the answer to a SIDR request. Even if the answer is a refusal,
// onSIDRREP does not change the local queue pair.
func (i *ID) onSIDRREP(m *SIDRREP) bool {
	if i.state != StateREQSent || i.ps != cm.UDP {
		return false
	}
	i.enter(StateEnded)
	if m.Status != cm.SIDROK {
		i.raise(cm.TransportEvent{Type: cm.Unreachable, Status: int(m.Status), Err: userRefused(m.UserRefused), ByApplication: m.ByApplication, PrivateData: m.Private})
		return true
	}
	// If route() fails, the address vector has the GID index 0.
	route, _ := i.route()
	to := cm.UDParam{AH: route, QPN: m.QPN, QKey: m.QKey}
	i.raise(cm.TransportEvent{Type: cm.Established, UD: to, PrivateData: m.Private})
	return true
}
