package cm

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
// In the TCP port space the event Established follows. If the connection fails after
// all, the event is Rejected, Unreachable or Disconnected. In the UDP port space no
// event follows.
//
// If the error is a *verbs.ParamError or a *StateError, the call may be repeated. After
// any other error the ID can only be closed.
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
// After the call the ID can only be closed. If the peer has gone, the error is
// verbs.ErrPeerGone. With librdmacm it is EINVAL.
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
// effect. Before Connect or Accept the error is a *StateError. Source:
// rdma_disconnect(3).
//
// After the peer's disconnect request, the peer waits until this side calls Disconnect
// or Close.
//
// On the passive side, Disconnect may be called before Established; see
// StateDisconnectPending. On the active side, Disconnect does not cancel a connection
// request: only Close does.
func (id *ID) Disconnect() error {
	return id.do(callDisconnect, func() error { return id.t.Disconnect() })
}

// endpoint returns what connection parameters depend on: the device and the queue pair.
func (id *ID) endpoint(c call) (e endpoint, err error) {
	dev, err := id.device(c)
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
