package reactor

import (
	"bytes"
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
// its methods. After Config.Limits.DecisionTimeout, or during a shutdown, the engine rejects the
// request.
type ConnRequest struct {
	engine      *Engine
	listener    *Listener
	id          *cm.ID
	local       netip.AddrPort
	remote      netip.AddrPort
	process     *cm.Credentials
	device      verbs.Device
	privateData []byte
	hasOffer    bool   // true if the peer offers long messages and this side can receive them
	longLimit   uint32 // length in bytes of the longest message that the peer accepts
	param       cm.MessageParam

	opening opening              // belongs to the loop of the connection, after Accept
	user    any                  // AcceptOptions.UserData, set by Accept
	loop    atomic.Pointer[Loop] // loop that gets the connection; nil until loopFor has chosen it
	decided atomic.Uint32        // who answers the request: a decision
	expiry  timerheap.Timer      // timer for Config.Limits.DecisionTimeout
	// endedBy is byPeer or byRemoval if the request has ended without an answer, and
	// otherwise undecided. The acceptor's mutex guards this field.
	endedBy decision
}

// AcceptOptions are the options of Accept. The zero value and nil mean the defaults.
type AcceptOptions struct {
	// PrivateData is sent to the peer, at most 196 bytes, or 188 if Config.MaxLongMessage
	// is set and ListenOptions.ImmediatesOnly is not. Accept copies it.
	PrivateData []byte
	// PrivateDataFor replaces PrivateData if it is not nil: see DialOptions.PrivateDataFor.
	PrivateDataFor func(c *Conn) ([]byte, error)
	// Loop is the loop that gets the connection. Nil means the result of ConnRequest.Loop.
	Loop *Loop
	// ResponderResources and InitiatorDepth replace the fields of Config.Transport with the
	// same names, unless they are zero. A negative number means none. Accept limits both to
	// what the device can do. It also limits InitiatorDepth to the peer's responder
	// resources.
	ResponderResources int
	InitiatorDepth     int
	// UserData is the first value of Conn.UserData, and the result of ConnRequest.UserData.
	UserData any
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

// UserData returns the AcceptOptions.UserData with which Accept was called, for OnAcceptError.
// A goroutine that did not call Accept must not call UserData before that.
func (r *ConnRequest) UserData() any { return r.user }

// privateRoom returns how many bytes of private data the application may send with
// Accept.
func (r *ConnRequest) privateRoom() int {
	return r.engine.cfg.privateRoom(cm.MessageAccept, r.listener.options.ImmediatesOnly)
}

// Engine returns the engine whose listener has received the request.
func (r *ConnRequest) Engine() *Engine { return r.engine }

// Loop returns the loop that gets the connection: that of ListenOptions.Loop, or the one with
// the fewest connections when the request arrived, and after Accept that of
// AcceptOptions.Loop. It can differ from the one that calls OnConnectRequest, which is the
// loop with index 0.
func (r *ConnRequest) Loop() *Loop { return r.loop.Load() }

// Accept accepts the request. The loop then makes the connection, and calls OnOpen or
// OnAcceptError. Accept copies o. A nil o means the defaults. After an error no callback
// follows.
//
// After a *verbs.ParamError, or verbs.ErrForeign for a loop of another engine, the request can
// still be answered. The other errors match ErrDecided, ErrExpired, ErrShutdown,
// ErrDeviceRemoved or verbs.ErrPeerGone.
func (r *ConnRequest) Accept(o *AcceptOptions) error {
	const op = "accept"
	var options AcceptOptions
	if o != nil {
		options = *o
	}
	if err := options.check(r.privateRoom()); err != nil {
		return operr.Wrap(op, err)
	}
	loop := options.Loop
	switch {
	case loop == nil:
		loop = r.Loop()
	case !r.engine.owns(loop):
		return operr.Wrap(op, errForeignLoop)
	}
	if !r.decide(byApplication) {
		return operr.Wrap(op, r.decisionErr())
	}
	options.PrivateData = bytes.Clone(options.PrivateData)
	r.user = options.UserData
	r.loop.Store(loop)
	loop.load.Add(1)
	if loop.post(op, func() { loop.startAccept(r, &options) }, true) != nil {
		loop.load.Add(-1)
		// If the peer has given up the request, rejecting it fails. Accept returns ErrShutdown
		// in this case too.
		_ = r.engine.acceptor.reject(r, []byte(saysShutdown))
		r.engine.rejects.Add(1)
		r.logRejected(saysShutdown)
		return operr.Wrap(op, ErrShutdown)
	}
	r.engine.accepts.Add(1)
	return nil
}

// Reject rejects the request, with up to 148 bytes of private data, which are copied. The errors
// are those of Accept and of cm.ID.Reject.
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
	r.logRejected("by the application")
	return nil
}

// check returns a *verbs.ParamError for the first parameter that is out of range. The
// parameter room is the largest length of the private data.
func (o *AcceptOptions) check(room int) error {
	if err := operr.CheckRange("private data", len(o.PrivateData), 0, room); err != nil {
		return err
	}
	if err := operr.CheckRange("responder resources", o.ResponderResources, -1, math.MaxUint8); err != nil {
		return err
	}
	return operr.CheckRange("initiator depth", o.InitiatorDepth, -1, math.MaxUint8)
}

// acceptParam returns the parameters of the reply. They are what this side wants,
// limited by the device and by the peer's responder resources (rdma_accept(3)).
func (r *ConnRequest) acceptParam(p *AcceptOptions, attr verbs.DeviceAttr) cm.MessageParam {
	cfg := r.engine.cfg
	return cm.MessageParam{
		PrivateData:        p.PrivateData,
		ResponderResources: limitDepth(orNone(p.ResponderResources, cfg.Transport.ResponderResources), attr.MaxQPRdAtom),
		InitiatorDepth:     limitDepth(orNone(p.InitiatorDepth, cfg.Transport.InitiatorDepth), min(attr.MaxQPInitRdAtom, r.param.InitiatorDepth)),
		FlowControl:        r.param.FlowControl,
		RNRRetryCount:      uint8(orNone(r.listener.options.RNRRetryCount, cfg.Transport.RNRRetryCount)),
	}
}

// limitDepth returns want or limit, whichever is smaller.
func limitDepth(want int, limit uint8) uint8 { return uint8(min(want, int(limit))) }

// Credentials returns the credentials of the process that requests the connection. Nil means
// that they are not known. They are known only on the local path of provider/soft. Source:
// unix(7), SO_PEERCRED.
func (r *ConnRequest) Credentials() *cm.Credentials { return r.process }
