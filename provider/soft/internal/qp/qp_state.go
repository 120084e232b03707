//go:build linux

package qp

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Modify implements verbs.QP.
func (q *QP) Modify(attr *verbs.QPAttr, mask verbs.QPAttrMask) error {
	if attr == nil {
		return operr.Wrap("modify QP", errNilAttr)
	}
	q.Shard.Enter()
	defer q.Shard.Leave()
	return operr.Wrap("modify QP", q.modify(attr, mask))
}

func (q *QP) modify(attr *verbs.QPAttr, mask verbs.QPAttrMask) error {
	if q.closed.Load() {
		return verbs.ErrClosed
	}
	if err := verbs.CheckTransition(q.typ, q.state, attr, mask); err != nil {
		return err
	}
	if err := checkDepths(attr, mask); err != nil {
		return err
	}
	from, to := q.state, q.state
	if mask&verbs.AttrState != 0 {
		to = attr.State
	}
	if to == verbs.StateRTR && from == verbs.StateInit {
		if err := q.preparePath(attr); err != nil {
			return err
		}
	}
	q.setAttrs(attr, mask)
	q.enterState(from, to)
	if q.local != nil {
		q.local.AttributesChanged()
	}
	return nil
}

// preparePath makes the path usable for a queue pair that enters RTR.
func (q *QP) preparePath(attr *verbs.QPAttr) error {
	if q.ud != nil {
		return q.ud.Ready()
	}
	return q.engine.Host.Connect(q, attr)
}

// checkDepths checks the attributes that the device limits.
func checkDepths(attr *verbs.QPAttr, mask verbs.QPAttrMask) error {
	if mask&verbs.AttrMaxRdAtomic != 0 && attr.MaxRdAtomic > MaxRdAtomic {
		return &verbs.ParamError{Field: "initiator depth", Value: int64(attr.MaxRdAtomic), Limit: MaxRdAtomic}
	}
	if mask&verbs.AttrMaxDestRdAtomic != 0 && attr.MaxDestRdAtomic > MaxRdAtomic {
		return &verbs.ParamError{Field: "responder resources", Value: int64(attr.MaxDestRdAtomic), Limit: MaxRdAtomic}
	}
	if mask&verbs.AttrPort != 0 {
		return CheckPort(attr.Port)
	}
	return nil
}

// portNumber is the number of the only port.
const portNumber = 1

// CheckPort returns an error unless num is the number of the only port.
func CheckPort(num uint8) error {
	if num != portNumber {
		return &verbs.ParamError{Field: "port", Value: int64(num), Limit: 1, Reason: "the device has one port, with number 1"}
	}
	return nil
}

// setAttrs stores the attributes that the mask names.
func (q *QP) setAttrs(attr *verbs.QPAttr, mask verbs.QPAttrMask) {
	set := func(bit verbs.QPAttrMask, assign func()) {
		if mask&bit != 0 {
			assign()
		}
	}
	a := &q.attr
	set(verbs.AttrAccess, func() { a.Access = attr.Access })
	set(verbs.AttrPort, func() { a.Port = attr.Port })
	set(verbs.AttrQKey, func() { a.QKey = attr.QKey })
	set(verbs.AttrAV, func() { a.AH = attr.AH })
	set(verbs.AttrPathMTU, func() { a.PathMTU = attr.PathMTU })
	set(verbs.AttrDestQPN, func() { a.DestQPN = attr.DestQPN })
	set(verbs.AttrRQPSN, func() { a.RQPSN = attr.RQPSN })
	set(verbs.AttrSQPSN, func() { a.SQPSN = attr.SQPSN })
	set(verbs.AttrMaxDestRdAtomic, func() { a.MaxDestRdAtomic = attr.MaxDestRdAtomic })
	set(verbs.AttrMaxRdAtomic, func() { a.MaxRdAtomic = attr.MaxRdAtomic })
	set(verbs.AttrMinRNRTimer, func() { a.MinRNRTimer = attr.MinRNRTimer })
	set(verbs.AttrTimeout, func() { a.Timeout = attr.Timeout })
	set(verbs.AttrRetryCount, func() { a.RetryCount = attr.RetryCount })
	set(verbs.AttrRNRRetry, func() { a.RNRRetry = attr.RNRRetry; q.rnr.retriesLeft = attr.RNRRetry })
}

// enterState does the work of a state change. If Modify keeps the state, from and to are
// equal.
func (q *QP) enterState(from, to verbs.QPState) {
	switch to {
	case verbs.StateReset:
		q.reset()
		q.attr = verbs.QPAttr{}
	case verbs.StateError:
		if q.local != nil {
			// Acknowledged requests complete with success. Slots that have arrived must
			// be processed first, because acknowledgements may depend on them.
			q.local.ConsumeArrived()
			q.local.TakeAcks()
		}
		q.enterError()
	case verbs.StateSQD:
		if from != to {
			q.state, q.drained = to, false
			// In SQD the queue pair begins no new request, but polls for
			// acknowledgements.
			q.path.Transmit()
			q.retire(q.path.Acked())
		}
	default:
		q.state = to
		if to == verbs.StateRTS && q.path != nil {
			q.path.Transmit()
		}
	}
}

// IsServing reports whether the queue pair processes packets of the peer.
func (q *QP) IsServing() bool {
	return q.state == verbs.StateRTR || q.state == verbs.StateRTS || q.state == verbs.StateSQD
}

// enterError enters the error state, and flushes both queues with StatusWRFlushErr in
// order (IBTA vol. 1, 10.3.1.7). The path stays until Close or RESET.
func (q *QP) enterError() {
	if q.state == verbs.StateError {
		return
	}
	q.state = verbs.StateError
	q.rnr.timer.Stop()
	q.partial.timer.Stop()
	if q.rc != nil {
		q.rc.StopResponding()
	}
	q.flushSends()
	q.flushReceives()
	if q.srq != nil {
		// The event says that the queue pair takes no more buffers of the SRQ
		// (ibv_get_async_event(3)).
		q.engine.async.push(verbs.AsyncEvent{Type: verbs.AsyncQPLastWQE, QP: q})
	}
}

// raise reports that the queue pair fails because of what the peer has sent. The caller
// then makes the queue pair enter the error state. In this state raise does nothing, so a
// queue pair raises one such event until RESET, whatever the peer sends.
func (q *QP) raise(event verbs.AsyncEventType) {
	if q.state != verbs.StateError {
		q.engine.async.push(verbs.AsyncEvent{Type: event, QP: q})
	}
}

// CountViolation counts a violation of the protocol by the peer.
func (q *QP) CountViolation() { q.blame(q.engine.Access.CountViolation) }

// flushSends completes all requests of the send queue with verbs.StatusWRFlushErr.
func (q *QP) flushSends() {
	for q.sq.oldest != q.sq.tail {
		w := q.sq.at(q.sq.oldest)
		q.sq.complete(q.sendCQ, &verbs.WC{ID: w.id, Status: verbs.StatusWRFlushErr, QPN: q.num})
	}
	q.requester.forgetSent(q.sq.oldest)
}

// flushReceives completes all receive buffers of the queue pair with
// verbs.StatusWRFlushErr.
func (q *QP) flushReceives() {
	flushed := verbs.WC{Status: verbs.StatusWRFlushErr}
	if q.message == messageSend {
		q.receiveDone(&flushed, false)
	}
	// The buffers of an SRQ are not flushed, because other queue pairs may use them.
	for q.srq == nil && q.rq.pop(&q.buffer) {
		q.receiveDone(&flushed, false)
	}
}

// reset enters RESET. It drops the requests in the queues. An RC queue pair also loses
// its path, and a UD queue pair keeps it.
func (q *QP) reset() {
	q.rnr.timer.Stop()
	q.leavePartial()
	if q.ud != nil {
		q.ud.Clear()
	} else if q.rc != nil {
		q.rc.StopResponding()
		q.rc.Detach()
		q.path, q.rc, q.local, q.wire = nil, nil, nil, nil
	}
	q.state = verbs.StateReset
	q.sq.reset()
	q.rq.head = q.rq.tail
	if q.message == messageSend {
		q.receiveQueue().held--
	}
	sges := q.responder.buffer.sges
	q.responder = responder{buffer: rqe{sges: sges}, receivesInline: q.receivesInline}
	q.requester.forgetSent(q.sq.oldest)
	q.rnr.waiting = false
	q.unbindWindows()
}

// UseLocal sets the path of an RC queue pair that reaches its peer in shared memory.
func (q *QP) UseLocal(p LocalPath) { q.path, q.rc, q.local = p, p, p }

// UseWire sets the path of an RC queue pair that reaches its peer in packets.
func (q *QP) UseWire(p WirePath) { q.path, q.rc, q.wire = p, p, p }
