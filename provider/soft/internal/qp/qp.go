//go:build linux

package qp

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// QP implements verbs.QP. It belongs to its shard. The methods Shard.Enter and
// Shard.Leave guard the field state and the fields after it.
type QP struct {
	engine    *Engine
	pd        *pd
	Shard     *Shard
	num       uint32
	typ       verbs.QPType
	sendCQ    *cq
	recvCQ    *cq
	srq       *srq
	caps      verbs.QPCaps
	signalAll bool
	RecvTime  bool // QPInitAttr.RecvTime

	state verbs.QPState
	// closed is atomic because connection management reads it without Shard.Enter.
	closed  atomic.Bool
	drained bool // true if AsyncSQDrained was raised since the state became SQD
	attr    verbs.QPAttr

	sq sendQueue
	rq recvQueue
	requester
	responder
	partial partialMessage
	windows map[*mw]struct{} // bound windows; guarded by mrTable.mu
	// attempt number of the last connection on the local path; see shm.Dest
	attempt uint8
	// true after the first connection on the local path has begun
	wasConnected bool
	// path to the peer; nil for an RC queue pair that has not entered RTR
	path Path
	// the same path; each field is nil if the path is of another kind
	rc    ReliablePath
	local LocalPath
	wire  WirePath
	ud    DatagramPath
}

var _ verbs.QP = (*QP)(nil)

// CreateQP implements verbs.PD.
func (p *pd) CreateQP(attr *verbs.QPInitAttr) (verbs.QP, error) {
	q, err := p.createQP(attr)
	if err != nil {
		return nil, operr.Wrap("create QP", err)
	}
	return q, nil
}

func (p *pd) createQP(attr *verbs.QPInitAttr) (*QP, error) {
	if attr == nil {
		return nil, errNilAttr
	}
	if attr.Type != verbs.QPTypeRC && attr.Type != verbs.QPTypeUD {
		return nil, &verbs.ParamError{Field: "QP type", Value: int64(attr.Type), Reason: "neither RC nor UD"}
	}
	sendCQ, err := p.checkCQ(attr.SendCQ)
	if err != nil {
		return nil, err
	}
	recvCQ, err := p.checkCQ(attr.RecvCQ)
	if err != nil {
		return nil, err
	}
	if sendCQ.shard != recvCQ.shard {
		return nil, &verbs.ParamError{Field: "vector", Value: int64(recvCQ.vector), Limit: int64(sendCQ.vector), Reason: "both CQs of a queue pair must have the same vector and progress"}
	}
	q := &QP{engine: p.engine, pd: p, Shard: sendCQ.shard, typ: attr.Type, sendCQ: sendCQ, recvCQ: recvCQ, caps: attr.Caps, signalAll: attr.SignalAll, RecvTime: attr.RecvTime}
	if err := q.attachSRQ(attr.SRQ); err != nil {
		return nil, err
	}
	if err := checkQPCaps(&q.caps, q.srq != nil); err != nil {
		return nil, err
	}
	q.sq = newSendQueue(&q.caps)
	q.rq = newRecvQueue(q.caps.MaxRecvWR, q.caps.MaxRecvSGE)
	q.buffer.sges = make([]verbs.SGE, 0, q.receiveQueue().maxSGE)
	q.rnr.timer.Init(q.Shard, q)
	q.partial.timer.Init(q.Shard, q)
	if err := q.register(); err != nil {
		return nil, err
	}
	return q, nil
}

// register gives the queue pair a number, and attaches it to its shard. For a UD queue
// pair, the number is unique on the host; see udpath.Path.Claim.
func (q *QP) register() error {
	claim, attach := func(uint32) error { return nil }, func() error { return nil }
	if q.typ == verbs.QPTypeUD {
		q.ud = q.engine.Host.NewDatagramPath(q)
		q.path, claim, attach = q.ud, q.ud.Claim, q.ud.Attach
	}
	if err := q.engine.register(q, claim); err != nil {
		return err
	}
	if err := q.attachToShard(attach); err != nil {
		q.engine.unregister(q)
		return err
	}
	return nil
}

// attachToShard checks the queues, calls attach(), and counts references to the PD, CQs
// and SRQ.
func (q *QP) attachToShard(attach func() error) error {
	q.Shard.Enter()
	defer q.Shard.Leave()
	err := q.checkQueues()
	if err == nil {
		err = attach()
	}
	if err != nil {
		if q.path != nil {
			q.path.Detach()
		}
		return err
	}
	q.pd.refs.Add(1)
	q.sendCQ.refs++
	q.recvCQ.refs++
	if q.srq != nil {
		q.srq.refs++
	}
	return nil
}

// checkQueues checks that the CQs and the SRQ are usable.
func (q *QP) checkQueues() error {
	if q.sendCQ.closed.Load() || q.recvCQ.closed.Load() || q.srq != nil && q.srq.closed {
		return verbs.ErrClosed
	}
	if q.sendCQ.overrun || q.recvCQ.overrun {
		return verbs.ErrOverrun
	}
	return nil
}

// checkCQ checks that a CQ is open, and belongs to the device of the domain.
func (p *pd) checkCQ(c verbs.CQ) (*cq, error) {
	own, ok := c.(*cq)
	if !ok {
		return nil, fmt.Errorf("%w: the CQ is missing or of another provider", verbs.ErrForeign)
	}
	if own.closed.Load() {
		return nil, verbs.ErrClosed
	}
	return own, p.checkEngine(own.engine)
}

func (q *QP) attachSRQ(s verbs.SRQ) error {
	if s == nil {
		return nil
	}
	own, ok := s.(*srq)
	if !ok || own.pd != q.pd {
		return fmt.Errorf("%w: the SRQ is of another protection domain", verbs.ErrForeign)
	}
	if own.shard != q.Shard {
		return &verbs.ParamError{Field: "SRQ vector", Value: int64(own.cq.vector), Limit: int64(q.recvCQ.vector), Reason: "an SRQ must have the vector and progress of its queue pairs"}
	}
	q.srq = own
	return nil
}

// checkQPCaps checks the capabilities of a new queue pair, and raises values that are
// too small.
func checkQPCaps(caps *verbs.QPCaps, hasSRQ bool) error {
	if hasSRQ {
		caps.MaxRecvWR = 0
	}
	for _, f := range []struct {
		name        string
		value       *int
		least, most int
	}{
		{"send WRs", &caps.MaxSendWR, 1, maxWR},
		{"receive WRs", &caps.MaxRecvWR, 0, maxWR},
		{"send SGEs", &caps.MaxSendSGE, 1, maxSGE},
		{"receive SGEs", &caps.MaxRecvSGE, 1, maxSGE},
		{"inline bytes", &caps.MaxInline, 0, maxInline},
	} {
		if err := operr.CheckRange(f.name, *f.value, 0, f.most); err != nil {
			return err
		}
		*f.value = max(*f.value, f.least)
	}
	return nil
}

// Num implements verbs.QP.
func (q *QP) Num() uint32 { return q.num }

// Type implements verbs.QP.
func (q *QP) Type() verbs.QPType { return q.typ }

// PD implements verbs.QP.
func (q *QP) PD() verbs.PD { return q.pd }

// Counts returns the counters of the shard.
func (q *QP) Counts() *counters.Set { return q.Shard.Counts }

// Caps implements verbs.QP.
func (q *QP) Caps() verbs.QPCaps { return q.caps }

// Attributes returns the attributes that Modify has set. The caller must not change them.
func (q *QP) Attributes() *verbs.QPAttr { return &q.attr }

// State implements verbs.QP.
func (q *QP) State() verbs.QPState {
	q.Shard.Enter()
	defer q.Shard.Leave()
	return q.state
}

// Query implements verbs.QP.
func (q *QP) Query() (verbs.QPAttr, error) {
	q.Shard.Enter()
	defer q.Shard.Leave()
	if q.closed.Load() {
		return verbs.QPAttr{}, operr.Wrap("query QP", verbs.ErrClosed)
	}
	attr := q.attr
	attr.State = q.state
	return attr, nil
}

// Errors of queue pairs in a state that has no receives or sends.
var (
	errNotReceiving = fmt.Errorf("%w: a queue pair in RESET has no receives", verbs.ErrState)
	errNotSending   = fmt.Errorf("%w: only a queue pair in RTS, SQD or ERR has sends", verbs.ErrState)
)

var errNoReceiveQueue = errors.New("the queue pair has an SRQ")

// PostRecv implements verbs.QP.
func (q *QP) PostRecv(wrs []verbs.RecvWR) (int, error) {
	q.Shard.Enter()
	n, err := q.postRecv(wrs)
	q.Shard.Leave()
	if err != nil {
		return n, operr.Wrap("post receive", err)
	}
	return n, nil
}

func (q *QP) postRecv(wrs []verbs.RecvWR) (int, error) {
	switch {
	case q.closed.Load():
		return 0, verbs.ErrClosed
	case q.srq != nil:
		return 0, &verbs.FeatureError{Feature: "post receive", Reason: errNoReceiveQueue}
	case q.state == verbs.StateReset:
		return 0, errNotReceiving
	}
	n, err := q.rq.post(wrs)
	if q.state == verbs.StateError {
		q.flushReceives()
	} else if q.wire != nil {
		q.wire.ReceivesPosted()
	}
	return n, err
}

// NextAttempt returns a new attempt number; see shm.Dest. A connection on the local path
// uses a new number when it begins, and after the peer has refused requests.
func (q *QP) NextAttempt() uint8 {
	q.attempt++
	return q.attempt
}

// FirstConnection is called when a connection begins on the local path. It reports
// whether the connection is the first one of the queue pair.
func (q *QP) FirstConnection() bool {
	first := !q.wasConnected
	q.wasConnected = true
	return first
}

// SetRecvMode implements verbs.QP.
func (q *QP) SetRecvMode(mode verbs.RecvMode) error {
	const op = "set receive mode"
	q.Shard.Enter()
	defer q.Shard.Leave()
	switch {
	case q.closed.Load():
		return operr.Wrap(op, verbs.ErrClosed)
	case mode > verbs.RecvPaused:
		return operr.Wrap(op, &verbs.ParamError{Field: "receive mode", Value: int64(mode), Limit: int64(verbs.RecvPaused)})
	case mode != verbs.RecvPaused:
		q.refusals = 0
	}
	q.mode = mode
	return nil
}

// PostSend implements verbs.QP.
func (q *QP) PostSend(wrs []verbs.SendWR) (int, error) {
	q.Shard.Enter()
	n, err := q.postSend(wrs)
	q.Shard.Leave()
	if err != nil {
		return n, operr.Wrap("post send", err)
	}
	return n, nil
}

func (q *QP) postSend(wrs []verbs.SendWR) (n int, err error) {
	if q.closed.Load() {
		return 0, verbs.ErrClosed
	}
	if q.state != verbs.StateRTS && q.state != verbs.StateSQD && q.state != verbs.StateError {
		return 0, errNotSending
	}
	for n < len(wrs) && err == nil {
		if err = q.enqueue(&wrs[n]); err == nil {
			n++
		}
	}
	if q.state == verbs.StateError {
		q.flushSends()
	} else if q.path != nil {
		q.path.Transmit()
	}
	return n, err
}

// SendInline implements verbs.QP. It returns false in automatic progress, if the message has
// to wait, and on the wire path. That path would have to keep a copy of the data, because the
// packet may be lost.
func (q *QP) SendInline(id uint64, flags verbs.SendFlags, data []byte) bool {
	if !q.Shard.auto {
		q.makeRoom()
	}
	if q.Shard.auto || q.local == nil || q.state != verbs.StateRTS || q.HasUnsent() || q.rnr.waiting || q.sq.full() ||
		len(data) > q.caps.MaxInline || flags&verbs.SendFence != 0 {
		return false
	}
	flags |= verbs.SendInline
	if q.signalAll {
		flags |= verbs.SendSignaled
	}
	seq, ok := q.local.SendInline(flags, data)
	if !ok {
		return false
	}
	q.sq.pushSent(id, flags, data, seq)
	return true
}

// Doorbell implements verbs.QP. In the error state it does nothing.
func (q *QP) Doorbell() {
	q.Shard.Enter()
	if q.state == verbs.StateRTS || q.state == verbs.StateSQD {
		q.path.Transmit()
	}
	q.Shard.Leave()
}

// enqueue checks a request and appends it to the send queue.
func (q *QP) enqueue(wr *verbs.SendWR) error {
	total, err := q.validate(wr)
	if err != nil {
		return err
	}
	q.makeRoom()
	if q.sq.full() && q.local != nil && q.IsServing() {
		// Acknowledgements of the peer may have arrived. They complete requests.
		q.local.TakeAcks()
	}
	if q.sq.full() {
		return verbs.ErrQueueFull
	}
	q.sq.push(wr, total)
	return nil
}

// Close implements verbs.QP.
func (q *QP) Close() error {
	q.Shard.Enter()
	defer q.Shard.Leave()
	if q.closed.Load() {
		return nil
	}
	q.closed.Store(true)
	q.reset()
	// From now on Poll skips the completions of q.sq and q.rq. Completions of SRQ
	// buffers are still returned.
	q.sq.destroyed = true
	q.rq.destroyed = true
	if q.ud != nil {
		q.ud.Detach()
	}
	q.pd.refs.Add(-1)
	q.sendCQ.refs--
	q.recvCQ.refs--
	if q.srq != nil {
		q.srq.refs--
	}
	q.engine.unregister(q)
	q.engine.async.forget(q)
	return nil
}

// Closed implements connmgr.QueuePair. It reports whether Close was called.
func (q *QP) Closed() bool { return q.closed.Load() }

// ReceiveAt implements connmgr.QueuePair. It passes the address to the path of a UD queue
// pair.
func (q *QP) ReceiveAt(at netip.Addr) error {
	q.Shard.Enter()
	defer q.Shard.Leave()
	if q.ud == nil {
		return nil
	}
	return q.ud.ReceiveAt(at)
}

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
	if q.engine.failed.Load() && mask&verbs.AttrState != 0 && attr.State != verbs.StateReset && attr.State != verbs.StateError {
		return syscall.EIO
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
	q.responder = responder{buffer: rqe{sges: sges}}
	q.requester.forgetSent(q.sq.oldest)
	q.rnr.waiting = false
	q.unbindWindows()
}

// UseLocal sets the path of an RC queue pair that reaches its peer in shared memory.
func (q *QP) UseLocal(p LocalPath) { q.path, q.rc, q.local = p, p, p }

// UseWire sets the path of an RC queue pair that reaches its peer in packets.
func (q *QP) UseWire(p WirePath) { q.path, q.rc, q.wire = p, p, p }
