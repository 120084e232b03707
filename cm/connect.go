package cm

import (
	"bytes"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Connect sends a connection request to the peer. In the UDP port space it sends a
// datagram lookup. The caller posts receive buffers first. A nil param means the zero
// ConnParam. If Connect returns an error, nothing was sent, and the call may be
// repeated. Source: rdma_connect(3).
//
// If the peer accepts, the event Established follows. An ID without a queue pair gets
// ConnectResponse instead. A failure arrives as Rejected, Unreachable or ConnectError.
// After a failure the ID can only be closed.
func (id *ID) Connect(param *ConnParam) error {
	return id.do(callConnect, func() error {
		e, err := id.endpoint()
		if err != nil {
			return err
		}
		param, err := e.connectParam(param)
		if err != nil {
			return err
		}
		return id.t.Connect(param)
	})
}

// Accept accepts the connection request of this ID. The caller posts receive buffers
// first, because messages may arrive before Established. A nil param means the zero
// ConnParam. Source: rdma_accept(3).
//
// In the TCP port space the event Established follows. If the connection fails after
// all, the event is Rejected, Unreachable or Disconnected. In the UDP port space no
// event follows.
//
// After an error the call may be repeated if State is still StateRequested: an argument was
// wrong, or a queue pair is missing. In all other cases the ID can only be closed.
func (id *ID) Accept(param *ConnParam) error {
	return id.do(callAccept, func() error {
		e, err := id.endpoint()
		if err != nil {
			return err
		}
		param, err := e.acceptParam(param, &id.request)
		if err != nil {
			return err
		}
		if err := id.t.Accept(param); err != nil {
			id.state = StateFailed
			return err
		}
		return nil
	})
}

// Reject refuses the connection request of this ID. The peer gets the event Rejected
// with RejectConsumer. In the UDP port space the peer gets Unreachable with SIDRReject.
// Source: rdma_reject(3).
//
// The active side can also call Reject, if its ID has no queue pair. Reject then refuses
// the response of the peer.
//
// The private data is copied. MaxPrivateData is its limit.
//
// If the error is a *verbs.ParamError, the call may be repeated. In all other cases the
// ID can only be closed. If the peer has gone, the error is verbs.ErrPeerGone. With
// librdmacm it is EINVAL.
func (id *ID) Reject(privateData []byte) error {
	return id.do(callReject, func() error {
		if err := checkPrivateData(id.ps, MessageReject, privateData); err != nil {
			return err
		}
		return id.t.Reject(RejectConsumer, privateData)
	})
}

// RejectNoResources refuses the connection request of this ID because this side has no
// room. The peer's error then matches verbs.ErrNoResources and ErrRefused. librdmacm can
// not send this reason, so it sends RejectConsumer without private data.
//
// The active side can call it where it can call Reject. After the call the ID can only be
// closed. If the peer has gone, the error is verbs.ErrPeerGone. With librdmacm it is EINVAL.
func (id *ID) RejectNoResources() error {
	return id.do(callReject, func() error { return id.t.Reject(RejectNoResources, nil) })
}

// Establish confirms the connection after the event ConnectResponse. It is for an ID
// without a queue pair. The caller first moves its own queue pair to RTS. The peer gets
// the event Established. If the peer has gone, the error is verbs.ErrPeerGone. With
// librdmacm it is EINVAL. Source: rdma_establish(3).
func (id *ID) Establish() error {
	return id.do(callEstablish, func() error { return id.t.Establish() })
}

// Disconnect ends the connection, or answers the peer's disconnect request. It flushes
// the queue pair of the ID. When the peer answers, the event Disconnected follows. If
// the peer does not answer, the event comes after about 70 seconds. A second call has no
// effect, and a call after a failure only flushes the queue pair. On a listener, and before
// Connect or Accept, the error matches verbs.ErrState. Source: rdma_disconnect(3).
//
// After the peer's disconnect request, the peer waits until this side calls Disconnect
// or Close.
//
// On the passive side, Disconnect may be called before Established; see
// StateDisconnectPending. On the active side, Disconnect does not cancel a connection
// request: only Close does.
//
// A disconnect request carries the private data, which is copied, to the event Disconnected
// of the peer. MaxPrivateData is its limit. An answer carries none, and neither does the
// request of a C program that uses librdmacm. If the device has no Caps.DisconnectData, the
// error for private data is a *verbs.FeatureError, and the call may be repeated without it.
func (id *ID) Disconnect(privateData []byte) error {
	return id.do(callDisconnect, func() error {
		if err := id.checkDisconnectData(privateData); err != nil {
			return err
		}
		if id.state == StateAccepted {
			id.disconnectData = bytes.Clone(privateData)
		}
		return id.t.Disconnect(privateData)
	})
}

// checkDisconnectData checks the private data of a disconnect request.
func (id *ID) checkDisconnectData(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	dev, err := id.device()
	if err != nil {
		return err
	}
	if !dev.Caps().DisconnectData {
		return &verbs.FeatureError{Feature: "private data of a disconnect request", Reason: errNoDisconnectData}
	}
	return checkPrivateData(id.ps, MessageDisconnect, data)
}

// endpoint returns what connection parameters depend on: the device and the queue pair.
func (id *ID) endpoint() (e endpoint, err error) {
	dev, err := id.device()
	if err != nil {
		return e, err
	}
	attr := dev.Attr()
	e = endpoint{ps: id.ps, maxServed: attr.MaxQPRdAtom, maxIssued: attr.MaxQPInitRdAtom}
	if id.qp != nil {
		e.hasQP, e.qpNum, e.srq = true, id.qp.Num(), id.srq
	}
	return e, nil
}

// An endpoint describes this side of a connection. Its limits restrict the connection
// parameters.
type endpoint struct {
	ps        PortSpace
	hasQP     bool // true if the ID has a queue pair, which qpNum and srq describe
	qpNum     uint32
	srq       bool
	maxServed uint8 // number of the peer's READs and atomics that the device serves at once
	maxIssued uint8 // number of own READs and atomics that the device can have outstanding
}

// connectParam checks the parameters of Connect and returns the message to send. Source:
// rdma_connect(3).
func (e *endpoint) connectParam(p *ConnParam) (*MessageParam, error) {
	if p == nil {
		p = &ConnParam{}
	}
	if err := checkPrivateData(e.ps, MessageConnect, p.PrivateData); err != nil {
		return nil, err
	}
	if e.ps == UDP {
		// A lookup is a SIDR_REQ, which has no field for a queue pair number.
		return &MessageParam{PrivateData: p.PrivateData}, nil
	}
	out, err := e.describe(p)
	if err != nil {
		return nil, err
	}
	if out.RetryCount, err = count("retry count", p.RetryCount, verbs.MaxRetry, verbs.MaxRetry); err != nil {
		return nil, err
	}
	return out, out.setCounts(p, usualCounts{served: e.maxServed, rnrRetry: verbs.MaxRetry}, e.maxServed, e.maxIssued)
}

// acceptParam checks the parameters of Accept, and returns the message to send. The
// retry count of the request holds for both sides (rdma_accept(3)).
func (e *endpoint) acceptParam(p *ConnParam, request *MessageParam) (*MessageParam, error) {
	if p == nil {
		p = &ConnParam{}
	}
	if err := checkPrivateData(e.ps, MessageAccept, p.PrivateData); err != nil {
		return nil, err
	}
	out, err := e.describe(p)
	if err != nil {
		return nil, err
	}
	if e.ps == UDP {
		return &MessageParam{PrivateData: p.PrivateData, QPNum: out.QPNum, QKey: out.QKey}, nil
	}
	out.RetryCount = request.RetryCount
	// The peer serves request.InitiatorDepth READs and atomics of this side at a time.
	// This side must not have more outstanding (rdma_accept(3)).
	usual := usualCounts{served: min(e.maxServed, request.ResponderResources), rnrRetry: min(request.RNRRetryCount, verbs.MaxRetry)}
	return out, out.setCounts(p, usual, e.maxServed, min(e.maxIssued, request.InitiatorDepth))
}

// usualCounts has the numbers that are sent if the application leaves a count zero.
type usualCounts struct {
	served   uint8 // number to send as ResponderResources
	rnrRetry uint8 // number to send as RNRRetryCount
}

// setCounts converts three of the wanted counts and stores them in p.
func (p *MessageParam) setCounts(wanted *ConnParam, usual usualCounts, maxServed, maxIssued uint8) (err error) {
	if p.ResponderResources, err = count("responder resources", wanted.ResponderResources, usual.served, maxServed); err != nil {
		return err
	}
	if p.InitiatorDepth, err = count("initiator depth", wanted.InitiatorDepth, maxIssued, maxIssued); err != nil {
		return err
	}
	p.RNRRetryCount, err = count("RNR retry count", wanted.RNRRetryCount, usual.rnrRetry, verbs.MaxRetry)
	return err
}

// count converts one count of a ConnParam. Zero becomes usualNumber, and a negative
// count becomes zero.
func count(field string, wanted int, usualNumber, limit uint8) (uint8, error) {
	switch {
	case wanted == 0:
		return usualNumber, nil
	case wanted < 0:
		return 0, nil
	}
	return uint8(wanted), operr.CheckRange(field, wanted, 0, int(limit))
}

// describe returns a message without counts. It describes the queue pair of the ID, or
// else the one in p.
func (e *endpoint) describe(p *ConnParam) (*MessageParam, error) {
	out := &MessageParam{PrivateData: p.PrivateData, FlowControl: p.FlowControl, SRQ: p.SRQ, QPNum: p.QPNum, QKey: p.QKey}
	if e.hasQP {
		out.QPNum, out.SRQ, out.QKey = e.qpNum, e.srq, 0
	}
	if out.QPNum == 0 {
		return nil, invalid("QP number", 0, "required for an ID without queue pair")
	}
	if e.ps == TCP {
		out.QKey = 0
	} else if out.QKey == 0 {
		out.QKey = DefaultQKey
	}
	return out, operr.CheckRange("QP number", int64(out.QPNum), 0, verbs.MaxQPNum)
}

// Notify tells the ID that a message has arrived on its queue pair before the peer's
// confirmation. The message shows that the connection exists, so the event Established
// follows. The late confirmation then has no effect. Source: rdma_notify(3).
//
// Call Notify after the asynchronous event verbs.AsyncCommEst, or after the completion
// of the message. Notify is for the TCP port space only. The argument must be
// verbs.AsyncCommEst. For any other argument, the error is a *verbs.ParamError. If the
// connection is already established, the error matches verbs.ErrState and can be
// ignored.
func (id *ID) Notify(event verbs.AsyncEventType) error {
	return id.do(callNotify, func() error {
		if event != verbs.AsyncCommEst {
			return invalid("asynchronous event", int(event), "only AsyncCommEst concerns a connection")
		}
		return id.t.Notify(event)
	})
}
