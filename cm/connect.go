package cm

// Connect asks the peer for a connection, or in the UDP port space for the
// number of its queue pair. The result is Established (ConnectResponse on an ID
// without queue pair), or Rejected, Unreachable or ConnectError, after which
// the ID can only be closed. Receives should be posted before. Nil param means
// the largest depths of the device and 7 for both retry counts.
//
// The errors are *verbs.ParamError, *StateError and the transport's; the ID is
// then unchanged, nothing was sent, and the call may be repeated. There is no
// cancelling but Close. Source: rdma_connect(3).
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

// Accept lets in the request that the ID was made for. In the TCP port space
// Established follows when the peer confirms, although messages may arrive
// before; Rejected, Unreachable or Disconnected when it gives up. In UDP the
// peer has its answer and no event follows. Receives should be posted before.
//
// Nil param means the values of the request, lowered to what the device can do;
// so does DepthMax. InitiatorDepth must not exceed that of the request.
// RetryCount is ignored. The param of the ConnectRequest may be handed in as
// long as the event is not acknowledged.
//
// After a *verbs.ParamError or *StateError nothing was sent and the call may be
// repeated. After another error, for example because the peer has left, the
// request is lost and the ID can only be closed. Source: rdma_accept(3).
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

// Reject refuses the request that the ID was made for, or on an active ID
// without queue pair the response. The peer gets Rejected with RejectConsumer,
// in the UDP port space Unreachable with SIDRReject. The private data, copied
// before the call returns, is at most 148 bytes, in UDP 136. What is left to do
// with the ID is Close. Source: rdma_reject(3).
func (id *ID) Reject(privateData []byte) error {
	return id.do(callReject, func() error {
		if err := checkPrivateData(id.ps, MessageReject, privateData); err != nil {
			return err
		}
		return id.t.Reject(RejectConsumer, privateData)
	})
}

// RejectNoResources refuses the request that the ID was made for because this side
// has no room for the connection: a limit is reached, or something can not be
// allocated. The peer gets Rejected with RejectNoResources, or in the UDP port space
// Unreachable with SIDRNoQP. The error of either event matches verbs.ErrNoResources
// and ErrRefused. librdmacm can not send that reason: through it the peer gets
// RejectConsumer without private data (rdma_reject(3) takes no reason). The only call
// that the ID takes afterwards is Close.
func (id *ID) RejectNoResources() error {
	return id.do(callReject, func() error { return id.t.Reject(RejectNoResources, nil) })
}

// Establish confirms the connection after ConnectResponse, when the caller has
// brought its queue pair to RTS. Source: rdma_establish(3).
func (id *ID) Establish() error {
	return id.do(callEstablish, func() error { return id.t.Establish() })
}

// Disconnect moves the queue pair of the ID, if it has one, to the error state,
// which flushes it, and tells the peer; Disconnected follows, at the latest when a
// peer that does not answer has been asked often enough: about 70 seconds. Close
// does not wait for that. Called after Disconnected it answers the peer, which
// waits for that, or for Close; where there is nothing to answer it does no harm.
// In the UDP port space nobody is told and no event follows. It does not cancel
// Connect or Accept: Close does. Source: rdma_disconnect(3).
func (id *ID) Disconnect() error {
	return id.do(callDisconnect, func() error { return id.t.Disconnect() })
}

// endpoint gathers what this side brings into a connection.
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
