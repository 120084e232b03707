package cm

// Connect sends a connection request to the peer, or in the UDP port space a lookup of
// the peer's queue pair number. The result is an event. Success is reported by
// Established, or by ConnectResponse if the ID has no queue pair. After Rejected,
// Unreachable or ConnectError the ID can only be closed. Receive buffers should be
// posted before the call. A nil param means the zero ConnParam.
//
// If Connect returns an error, the ID is unchanged, nothing was sent, and the call may
// be repeated. Only Close cancels a request. Source: rdma_connect(3).
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
// space the event Established follows when the peer confirms; messages may arrive before
// that event. If the connection fails, Rejected, Unreachable or Disconnected follows
// instead. In the UDP port space Accept completes the lookup and no event follows.
// Receive buffers should be posted before the call.
//
// A nil param means the zero ConnParam: no flow control, and the depths and retry counts
// of the request, lowered to the limits of the device. param.InitiatorDepth must not
// exceed the InitiatorDepth in Event.Param of the request. param.RetryCount is ignored.
//
// After a *verbs.ParamError or *StateError nothing was sent and the call may be
// repeated. After another error, for example because the peer has gone, the request can
// not be answered any more and the ID can only be closed. Source: rdma_accept(3).
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

// Reject refuses the connection request for which the ID was created. On an active ID
// without a queue pair, Reject refuses the peer's response. The peer gets Rejected with
// RejectConsumer, or in the UDP port space Unreachable with SIDRReject. The private data
// is at most 148 bytes, in the UDP port space 136; it is copied before the call returns.
// If the peer has gone, the error is verbs.ErrPeerGone, or EINVAL with librdmacm. After
// a *verbs.ParamError the call may be repeated; otherwise the ID can only be closed.
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
// librdmacm can not send this reject reason (rdma_reject(3) has no parameter for it):
// with librdmacm the peer gets RejectConsumer without private data. If the peer has
// gone, the error is verbs.ErrPeerGone, or EINVAL with librdmacm. After the call the ID
// can only be closed.
func (id *ID) RejectNoResources() error {
	return id.do(callReject, func() error { return id.t.Reject(RejectNoResources, nil) })
}

// Establish confirms the connection after the event ConnectResponse, on an ID without a
// queue pair. Before the call, the caller has moved its own queue pair to RTS. The peer
// gets the event Established; this side gets no event. If the peer has gone, the error is
// verbs.ErrPeerGone, or EINVAL with librdmacm. Source: rdma_establish(3).
func (id *ID) Establish() error {
	return id.do(callEstablish, func() error { return id.t.Establish() })
}

// Disconnect ends the connection. If the ID has a queue pair, Disconnect moves that queue
// pair to the error state, so its posted requests are flushed. Then Disconnect sends a
// disconnect request to the peer. The event Disconnected follows when the peer answers,
// or after about 70 seconds if the peer does not answer. The caller may call Close
// without waiting for that event.
//
// If the peer disconnects first, this side gets the event Disconnected and then calls
// Disconnect to answer the peer's request. The peer waits until this side calls
// Disconnect or Close. A second call of Disconnect has no effect. A call for a connection
// that has failed has no effect either.
//
// Disconnect may be called between Accept and the event Established. If the peer has not
// confirmed the connection yet, the disconnect request is sent when the confirmation
// arrives, and both events follow, Established and Disconnected. If the peer's disconnect
// request arrives before the peer's confirmation, only Disconnected follows, and the peer
// gets its answer without another call.
//
// Between Connect and Established, Disconnect only flushes the queue pair and does not
// cancel the request. If the peer then accepts, ConnectError follows, because the flushed
// queue pair can not be connected any more. To cancel a request at once, call Close.
//
// In the UDP port space Disconnect sends nothing and no event follows. The queue pair of
// the ID is flushed, as with librdmacm. Before Connect and before Accept the error is a
// *StateError. Source: rdma_disconnect(3).
func (id *ID) Disconnect() error {
	return id.do(callDisconnect, func() error { return id.t.Disconnect() })
}

// endpoint returns the endpoint of this side, with the device's limits and the queue
// pair of the ID. If the ID has no device, the error is a *StateError for the call c.
func (id *ID) endpoint(c call) (*endpoint, error) {
	dev, err := id.device(c)
	if err != nil {
		return nil, err
	}
	attr := dev.Attr()
	e := &endpoint{ps: id.ps, maxServed: attr.MaxQPRdAtom, maxIssued: attr.MaxQPInitRdAtom}
	if id.qp != nil {
		e.hasQP, e.qpNum, e.srq = true, id.qp.Num(), id.srq
	}
	return e, nil
}
