package cm

// Connect sends a connection request to the peer, or in the UDP port space a datagram
// lookup. The caller posts receive buffers first. A nil param means the zero ConnParam.
// After an error nothing was sent, and the call may be repeated. Source:
// rdma_connect(3).
//
// If the peer accepts, the event Established follows. An ID without a queue pair gets
// ConnectResponse instead. After Rejected, Unreachable or ConnectError the ID can only
// be closed.
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

// Accept accepts the connection request of this ID. The caller posts receive buffers
// first, because messages may arrive before Established. A nil param means the zero
// ConnParam. Source: rdma_accept(3).
//
// In the TCP port space the event Established follows. After a failure the event is
// Rejected, Unreachable or Disconnected instead. In the UDP port space no event follows.
//
// After a *verbs.ParamError or *StateError the call may be repeated. After any other
// error the ID can only be closed.
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

// Reject refuses the connection request of this ID. On an active ID without a queue
// pair, Reject refuses the peer's response. The peer gets Rejected with RejectConsumer,
// or in the UDP port space Unreachable with SIDRReject. Source: rdma_reject(3).
//
// The private data is copied. For its limit see MaxPrivateData.
//
// After a *verbs.ParamError the call may be repeated. Otherwise the ID can only be
// closed. If the peer has gone, the error is verbs.ErrPeerGone, or EINVAL with
// librdmacm.
func (id *ID) Reject(privateData []byte) error {
	return id.do(callReject, func() error {
		if err := checkPrivateData(id.ps, MessageReject, privateData); err != nil {
			return err
		}
		return id.t.Reject(RejectConsumer, privateData)
	})
}

// RejectNoResources refuses the connection request of this ID because this side has no
// room. The peer's error matches verbs.ErrNoResources and ErrRefused. librdmacm can not
// send this reason: it sends RejectConsumer without private data.
//
// After the call the ID can only be closed. If the peer has gone, the error is
// verbs.ErrPeerGone, or EINVAL with librdmacm.
func (id *ID) RejectNoResources() error {
	return id.do(callReject, func() error { return id.t.Reject(RejectNoResources, nil) })
}

// Establish confirms the connection after the event ConnectResponse, on an ID without a
// queue pair. The caller moves its own queue pair to RTS first. The peer gets
// Established. If the peer has gone, the error is verbs.ErrPeerGone, or EINVAL with
// librdmacm. Source: rdma_establish(3).
func (id *ID) Establish() error {
	return id.do(callEstablish, func() error { return id.t.Establish() })
}

// Disconnect ends the connection, or answers the peer's disconnect request. It flushes
// the queue pair of the ID. The event Disconnected follows when the peer answers, or
// after about 70 seconds. A second call has no effect. Before Connect or Accept the
// error is a *StateError. Source: rdma_disconnect(3).
//
// The passive side may call Disconnect before Established: see StateDisconnectPending.
// Only Close cancels a connection request. After the peer's disconnect request, the peer
// waits until this side calls Disconnect or Close.
func (id *ID) Disconnect() error {
	return id.do(callDisconnect, func() error { return id.t.Disconnect() })
}

// endpoint returns the properties of the device and the queue pair on which connection
// parameters depend.
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
