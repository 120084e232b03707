package reactor

import (
	"net/netip"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A ConnRequest is a peer that wants to connect. It may be kept, and used from
// any goroutine, but its methods but Accept, Reject and Steer only read. It is
// answered once, by Accept, Reject, or Config.DecisionTimeout.
type ConnRequest struct {
	engine      *Engine
	id          *cm.ID
	local       netip.AddrPort
	remote      netip.AddrPort
	process     peerProcess
	device      verbs.Device
	privateData []byte
	param       cm.ConnParam

	loop     atomic.Int32
	decision atomic.Uint32 // who answered
	expiry   timer
	// over is byPeer or byRemoval if the request has ended without an answer, else
	// nobody. The mutex of the door guards it.
	endedBy uint32
}

// Who answers a request.
const (
	undecided uint32 = iota
	byApplication
	byDeadline
	byEngine
	// byPeer: the peer is gone, and gets no answer.
	byPeer
	// byRemoval: the device of the request was removed.
	byRemoval
)

// AcceptParams are what a request is accepted with. The zero value, and nil,
// mean the defaults.
type AcceptParams struct {
	// PrivateData goes to the peer, at most 196 bytes. It is copied.
	PrivateData []byte
	// ResponderResources and InitiatorDepth stand in for those of Config if
	// they are not zero; negative means none. They are lowered to the device's
	// limits, the latter also to what the peer serves.
	ResponderResources int
	InitiatorDepth     int
	// Context is what Conn.Context returns at first.
	Context any
}

// LocalAddr is the address that the peer asked for.
func (r *ConnRequest) LocalAddr() netip.AddrPort { return r.local }

// RemoteAddr is the address of the peer.
func (r *ConnRequest) RemoteAddr() netip.AddrPort { return r.remote }

// Device is the device that the request came in by.
func (r *ConnRequest) Device() verbs.Device { return r.device }

// PrivateData is what the peer sent along. It is the request's, and valid for
// good. It may be padded with zeros: see cm.ConnParam.
func (r *ConnRequest) PrivateData() []byte { return r.privateData }

// Param is what the peer proposes, from this side's point of view: as
// ResponderResources what the peer wants served, and the other way round.
func (r *ConnRequest) Param() cm.ConnParam { return r.param }

// Loop is the index of the loop that is to have the connection.
func (r *ConnRequest) Loop() int { return int(r.loop.Load()) }

// Steer gives the connection to another loop, by index.
func (r *ConnRequest) Steer(loop int) error {
	if err := checkRange("loop", int64(loop), 0, int64(len(r.engine.loops)-1)); err != nil {
		return verbs.Wrap("steer", err)
	}
	if err := r.decisionErr(); err != nil {
		return verbs.Wrap("steer", err)
	}
	r.loop.Store(int32(loop))
	return nil
}

// Accept lets the peer in. The rest happens on the loop that the request was placed
// on, and ends in OnOpen or OnAcceptError. After a *verbs.ParamError the request is
// still open. After ErrDecided, ErrExpired, ErrShutdown, ErrDeviceRemoved or
// verbs.ErrPeerGone it is not.
func (r *ConnRequest) Accept(p *AcceptParams) error {
	const op = "accept"
	var params AcceptParams
	if p != nil {
		params = *p
	}
	if err := params.check(); err != nil {
		return verbs.Wrap(op, err)
	}
	if !r.decide(byApplication) {
		return verbs.Wrap(op, r.decisionErr())
	}
	params.PrivateData = append([]byte(nil), params.PrivateData...)
	loop := r.engine.loops[r.Loop()]
	loop.load.Add(1)
	if loop.post(op, func() { loop.startAccept(r, &params) }, true) != nil {
		loop.load.Add(-1)
		_ = r.engine.acceptor.reject(r, nil) // the peer may have left
		return verbs.Wrap(op, ErrShutdown)
	}
	r.engine.accepts.Add(1)
	return nil
}

// Reject turns the peer away, with up to 148 bytes of private data, which are
// copied. The errors are those of Accept, and of the connection manager.
func (r *ConnRequest) Reject(privateData []byte) error {
	const op = "reject"
	if err := checkRange("private data", int64(len(privateData)), 0, int64(cm.MaxPrivateData(cm.TCP, cm.MessageReject))); err != nil {
		return verbs.Wrap(op, err)
	}
	if !r.decide(byApplication) {
		return verbs.Wrap(op, r.decisionErr())
	}
	if err := r.engine.acceptor.reject(r, privateData); err != nil {
		return verbs.Wrap(op, err)
	}
	r.engine.rejects.Add(1)
	return nil
}

// decide claims the right to answer.
func (r *ConnRequest) decide(who uint32) bool { return r.decision.CompareAndSwap(undecided, who) }

// answered is nil as long as nobody has.
func (r *ConnRequest) decisionErr() error { return decisionError(r.decision.Load()) }

// decisionError is the error of an answer that comes too late.
func decisionError(who uint32) error {
	switch who {
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

func (p *AcceptParams) check() error {
	if err := checkRange("private data", int64(len(p.PrivateData)), 0, int64(cm.MaxPrivateData(cm.TCP, cm.MessageAccept))); err != nil {
		return err
	}
	if err := checkRange("responder resources", int64(p.ResponderResources), -1, 255); err != nil {
		return err
	}
	return checkRange("initiator depth", int64(p.InitiatorDepth), -1, 255)
}

// agree is what the answer says: what this side wants, what its device can do,
// and for the initiator depth what the peer serves (rdma_accept(3)).
func (r *ConnRequest) acceptParam(p *AcceptParams, attr verbs.DeviceAttr) cm.ConnParam {
	cfg := r.engine.cfg
	return cm.ConnParam{
		PrivateData:        p.PrivateData,
		ResponderResources: limitDepth(orNone(p.ResponderResources, cfg.ResponderResources), attr.MaxQPRdAtom),
		InitiatorDepth:     limitDepth(orNone(p.InitiatorDepth, cfg.InitiatorDepth), min(attr.MaxQPInitRdAtom, r.param.InitiatorDepth)),
		FlowControl:        r.param.FlowControl,
		RNRRetryCount:      uint8(cfg.RNRRetryCount),
	}
}

func limitDepth(want int, limit uint8) uint8 { return uint8(min(want, int(limit))) }
