package cm

// Connect sends a connection request to the peer, or in the UDP port space a lookup of
// the peer's queue pair number. The result is the event Established (ConnectResponse for
// an ID without a queue pair), or Rejected, Unreachable or ConnectError, after which the
// ID can only be closed. Receive buffers should be posted before the call. Nil param
// means the zero ConnParam.
//
// After an error the ID is unchanged, nothing was sent, and the call may be repeated.
// Only Close cancels a request. Source: rdma_connect(3).
func (id *ID) Connect(param *ConnParam) error {
	return id.do(callConnect, func() error {
		e, err := id.endpoint(callConnect)
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

// Accept accepts the connection request for which the ID was created. In the TCP port
// space Established follows when the peer confirms; messages may arrive before it. If
// the connection fails, Rejected, Unreachable or Disconnected follows instead. In the
// UDP port space Accept completes the lookup and no event follows. Receive buffers
// should be posted before the call.
//
// Nil param means the values of the request, lowered to the limits of the device. In a
// ConnParam, InitiatorDepth must not exceed the InitiatorDepth of the request, and
// RetryCount is ignored. MessageParam.ConnParam converts the parameters of the
// ConnectRequest event.
//
// After a *verbs.ParamError or *StateError nothing was sent and the call may be
// repeated. After another error, for example because the peer has gone, the request is
// lost and the ID can only be closed. Source: rdma_accept(3).
func (id *ID) Accept(param *ConnParam) error {
	return id.do(callAccept, func() error {
		e, err := id.endpoint(callAccept)
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

// Reject refuses the connection request for which the ID was created, or, on an active
// ID without a queue pair, the peer's response. The peer gets Rejected with
// RejectConsumer, or in the UDP port space Unreachable with SIDRReject. The private data
// is at most 148 bytes, in the UDP port space 136; it is copied before the call returns.
// The error is verbs.ErrPeerGone, with librdmacm EINVAL, if the peer has gone. After a
// *verbs.ParamError the call may be repeated; otherwise the ID can only be closed.
// Source: rdma_reject(3).
func (id *ID) Reject(privateData []byte) error {
	return id.do(callReject, func() error {
		if err := checkPrivateData(id.ps, MessageReject, privateData); err != nil {
			return err
		}
		return id.t.Reject(RejectConsumer, privateData)
	})
}

// RejectNoResources refuses the connection request for which the ID was created because
// this side has no room for the connection: a limit is reached, or an allocation failed.
// The peer gets Rejected with RejectNoResources, or in the UDP port space Unreachable
// with SIDRNoQP. The error of either event matches verbs.ErrNoResources and ErrRefused.
// librdmacm can not send that reason (rdma_reject(3) has no parameter for it): its peer
// gets RejectConsumer without private data. The error is verbs.ErrPeerGone, with
// librdmacm EINVAL, if the peer has gone. Afterwards the ID can only be closed.
func (id *ID) RejectNoResources() error {
	return id.do(callReject, func() error { return id.t.Reject(RejectNoResources, nil) })
}

// Establish confirms the connection after the event ConnectResponse, on an ID without a
// queue pair. The caller has moved its own queue pair to RTS before. No event follows on
// this side. The error is verbs.ErrPeerGone, with librdmacm EINVAL, if the peer has
// gone. Source: rdma_establish(3).
func (id *ID) Establish() error {
	return id.do(callEstablish, func() error { return id.t.Establish() })
}

// Disconnect moves the queue pair of the ID, if it has one, to the error state, which
// flushes it, and sends a disconnect request to the peer. The event Disconnected follows
// when the peer answers, or after about 70 seconds if it does not answer. Close may be
// called without waiting for the event. Called after Disconnected, Disconnect answers
// the peer's request; the peer waits for that answer, or for Close. Further calls, and a
// call for a connection that has failed, have no effect.
//
// Disconnect may be called between Accept and the event Established. If the peer has not
// confirmed yet, the disconnect request is sent when the confirmation arrives. The events
// Established and Disconnected both follow. Between Connect and Established, Disconnect
// only flushes the queue pair: it does not cancel the request. If the peer accepts
// nevertheless, ConnectError follows, because the queue pair can not be connected any
// more. Close cancels a request at once.
//
// In the UDP port space nothing is sent and no event follows. The error is a *StateError
// before Connect and before Accept. Source: rdma_disconnect(3).
func (id *ID) Disconnect() error {
	return id.do(callDisconnect, func() error { return id.t.Disconnect() })
}

// endpoint returns the properties of this side that the negotiation needs.
func (id *ID) endpoint(c call) (*endpoint, error) {
	dev, err := id.device(c)
	if err != nil {
		return nil, err
	}
	attr := dev.Attr()
	e := &endpoint{ps: id.ps, serves: attr.MaxQPRdAtom, issues: attr.MaxQPInitRdAtom}
	if id.qp != nil {
		e.hasQP, e.qpNum, e.srq = true, id.qp.Num(), id.srq
	}
	return e, nil
}
