package reactor

import (
	"math"
	"net/netip"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A ConnRequest is the connection request of a peer. The application answers the request
// with one call of Accept or Reject, in OnConnectRequest or later. Any goroutine may call
// its methods. After Config.DecisionTimeout, or during a shutdown, the engine rejects the
// request.
type ConnRequest struct {
	engine      *Engine
	listener    *Listener
	id          *cm.ID
	local       netip.AddrPort
	remote      netip.AddrPort
	process     peerProcess
	device      verbs.Device
	privateData []byte
	hasOffer    bool   // true if the peer offers long messages and this side can receive them
	longLimit   uint32 // length in bytes of the longest message that the peer accepts
	param       cm.MessageParam

	opening opening              // belongs to the loop of the connection, after Accept
	context any                  // AcceptParams.Context, set by Accept
	loop    atomic.Pointer[Loop] // loop that gets the connection; nil until loopFor has chosen it
	decided atomic.Uint32        // who answers the request: a decision
	expiry  timerheap.Timer      // timer for Config.DecisionTimeout
	// endedBy is byPeer or byRemoval if the request has ended without an answer, and
	// otherwise undecided. The acceptor's mutex guards this field.
	endedBy decision
}

// AcceptParams are the parameters of Accept. The zero value and nil mean the defaults.
type AcceptParams struct {
	// PrivateData is sent to the peer, at most 196 bytes, or 188 if Config.MaxLongMessage
	// is set and ListenOptions.ImmediatesOnly is not. Accept copies it.
	PrivateData []byte
	// PrivateDataFor makes the private data when the connection has a queue pair. It
	// replaces PrivateData if it is not nil: see PrivateDataFunc.
	PrivateDataFor PrivateDataFunc
	// ResponderResources and InitiatorDepth replace the fields of Config with the same
	// names, unless they are zero. A negative number means none. Accept limits both to
	// what the device can do. It also limits InitiatorDepth to the peer's responder
	// resources.
	ResponderResources int
	InitiatorDepth     int
	// Context is the result of Conn.Context until Conn.SetContext is called. It is also the
	// result of ConnRequest.Context.
	Context any
}

// LocalAddr returns the local address to which the peer wants to connect.
func (r *ConnRequest) LocalAddr() netip.AddrPort { return r.local }

// RemoteAddr returns the address of the peer.
func (r *ConnRequest) RemoteAddr() netip.AddrPort { return r.remote }

// Device returns the device at which the request has arrived.
func (r *ConnRequest) Device() verbs.Device { return r.device }

// PrivateData returns the private data of the request. The slice belongs to the request
// and stays valid. It may be padded with zeros: see cm.ConnParam.
func (r *ConnRequest) PrivateData() []byte { return r.privateData }

// Param returns the peer's parameters from this side's point of view. ResponderResources
// is the peer's initiator depth. InitiatorDepth is the peer's number of responder
// resources.
func (r *ConnRequest) Param() cm.MessageParam { return r.param }

// Context returns the AcceptParams.Context with which Accept was called, for example in
// OnAcceptError. Before Accept, and after Reject, the result is nil.
func (r *ConnRequest) Context() any { return r.context }

// privateRoom returns how many bytes of private data the application may send with
// Accept.
func (r *ConnRequest) privateRoom() int {
	return r.engine.cfg.privateRoom(cm.MessageAccept, r.listener.options.ImmediatesOnly)
}

// Engine returns the engine whose listener has received the request.
func (r *ConnRequest) Engine() *Engine { return r.engine }

// Loop returns the loop that gets the connection. In Config.Place it returns nil. The
// loop can differ from the one that calls OnConnectRequest, which is the loop with index
// 0.
func (r *ConnRequest) Loop() *Loop { return r.loop.Load() }

// Steer assigns the connection to the loop l, before Accept. If l belongs to another
// engine, the error matches verbs.ErrForeign. In Config.Place it matches verbs.ErrState.
// If the request was answered or has ended, the errors are those of Accept.
func (r *ConnRequest) Steer(l *Loop) error {
	const op = "steer"
	if !r.engine.owns(l) {
		return operr.Wrap(op, errForeignLoop)
	}
	if err := r.placedErr(); err != nil {
		return operr.Wrap(op, err)
	}
	r.loop.Store(l)
	return nil
}

// Accept accepts the request. The loop then makes the connection, and calls OnOpen or
// OnAcceptError. Accept copies p. A nil p means the defaults. After an error no callback
// follows.
//
// After a *verbs.ParamError, or verbs.ErrState in Config.Place, the request can still be
// answered. The other errors match ErrDecided, ErrExpired, ErrShutdown, ErrDeviceRemoved
// or verbs.ErrPeerGone.
func (r *ConnRequest) Accept(p *AcceptParams) error {
	const op = "accept"
	var params AcceptParams
	if p != nil {
		params = *p
	}
	if err := params.check(r.privateRoom()); err != nil {
		return operr.Wrap(op, err)
	}
	if err := r.placedErr(); err != nil {
		return operr.Wrap(op, err)
	}
	if !r.decide(byApplication) {
		return operr.Wrap(op, r.decisionErr())
	}
	params.PrivateData = append([]byte(nil), params.PrivateData...)
	r.context = params.Context
	loop := r.Loop()
	loop.load.Add(1)
	if loop.post(op, func() { loop.startAccept(r, &params) }, true) != nil {
		loop.load.Add(-1)
		// If the peer has given up the request, rejecting it fails. Accept returns ErrShutdown
		// in this case too.
		_ = r.engine.acceptor.reject(r, []byte(saysShutdown))
		r.engine.rejects.Add(1)
		return operr.Wrap(op, ErrShutdown)
	}
	r.engine.accepts.Add(1)
	return nil
}

// Reject rejects the request, with up to 148 bytes of private data, which are copied. It
// is allowed in Config.Place. The errors are those of Accept and of cm.ID.Reject.
func (r *ConnRequest) Reject(privateData []byte) error {
	const op = "reject"
	if err := operr.CheckRange("private data", len(privateData), 0, cm.MaxPrivateData(cm.TCP, cm.MessageReject)); err != nil {
		return operr.Wrap(op, err)
	}
	if !r.decide(byApplication) {
		return operr.Wrap(op, r.decisionErr())
	}
	if err := r.engine.acceptor.reject(r, privateData); err != nil {
		return operr.Wrap(op, err)
	}
	r.engine.rejects.Add(1)
	return nil
}

// placedErr returns the reason why the request can not be answered, or verbs.ErrState if
// the request has no loop yet.
func (r *ConnRequest) placedErr() error {
	err := r.decisionErr()
	if err == nil && r.Loop() == nil {
		err = stateError("the request has no loop until Config.Place has returned")
	}
	return err
}

// check returns a *verbs.ParamError for the first parameter that is out of range. The
// parameter room is the largest length of the private data.
func (p *AcceptParams) check(room int) error {
	if err := operr.CheckRange("private data", len(p.PrivateData), 0, room); err != nil {
		return err
	}
	if err := operr.CheckRange("responder resources", p.ResponderResources, -1, math.MaxUint8); err != nil {
		return err
	}
	return operr.CheckRange("initiator depth", p.InitiatorDepth, -1, math.MaxUint8)
}

// acceptParam returns the parameters of the reply. They are what this side wants,
// limited by the device and by the peer's responder resources (rdma_accept(3)).
func (r *ConnRequest) acceptParam(p *AcceptParams, attr verbs.DeviceAttr) cm.MessageParam {
	cfg := r.engine.cfg
	return cm.MessageParam{
		PrivateData:        p.PrivateData,
		ResponderResources: limitDepth(orNone(p.ResponderResources, cfg.ResponderResources), attr.MaxQPRdAtom),
		InitiatorDepth:     limitDepth(orNone(p.InitiatorDepth, cfg.InitiatorDepth), min(attr.MaxQPInitRdAtom, r.param.InitiatorDepth)),
		FlowControl:        r.param.FlowControl,
		RNRRetryCount:      uint8(orNone(r.listener.options.RNRRetryCount, cfg.RNRRetryCount)),
	}
}

// limitDepth returns want or limit, whichever is smaller.
func limitDepth(want int, limit uint8) uint8 { return uint8(min(want, int(limit))) }

// Credentials returns the credentials of the process that requests the connection. If
// they are not known, the second result is false. They are known only on the local path
// of provider/soft. Source: unix(7), SO_PEERCRED.
func (r *ConnRequest) Credentials() (cm.Credentials, bool) {
	return r.process.credentials, r.process.known
}

// Credentials returns the credentials of the peer's process: see
// ConnRequest.Credentials. For a dialing side, the peer is the process that listens. The
// result stays the same after OnClose.
func (c *Conn) Credentials() (cm.Credentials, bool) {
	return c.info.process.credentials, c.info.process.known
}
