package providertest

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func stateCases() []testCase {
	return []testCase{
		{"a new queue pair", newQueuePair},
		{"numbers differ", queuePairNumbers},
		{"steps without a connection", unconnectedSteps},
		{"states of a connection, ready before accept", func(r *rig) { connectedStates(r, false) }},
		{"states of a connection, ready after accept", func(r *rig) { connectedStates(r, true) }},
		{"states of a datagram queue pair", datagramStates},
		{"wrong attributes", wrongAttributes},
		{"query", queryAttributes},
		{"change while connected", changeConnected},
		{"a drained send queue waits", drainedSendQueue},
		{"reset", resetQueuePair},
	}
}

func newQueuePair(r *rig) {
	cq := r.newCQ(verbs.CQAttr{Depth: 64})
	for _, asked := range []verbs.QPCaps{
		{},
		{MaxSendWR: 7, MaxRecvWR: 5, MaxSendSGE: min(3, r.attr.MaxSGE), MaxRecvSGE: 1, MaxInline: min(33, r.attr.MaxInline)},
	} {
		qp, err := r.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: cq, RecvCQ: cq, Caps: asked})
		r.NoError(err)
		r.Equal(verbs.StateReset, qp.State())
		r.Equal(verbs.QPTypeRC, qp.Type())
		r.Equal(r.pd, qp.PD())
		got := qp.Caps()
		r.GreaterOrEqual(got.MaxSendWR, max(asked.MaxSendWR, 1))
		r.GreaterOrEqual(got.MaxRecvWR, asked.MaxRecvWR)
		r.GreaterOrEqual(got.MaxSendSGE, asked.MaxSendSGE)
		r.GreaterOrEqual(got.MaxRecvSGE, asked.MaxRecvSGE)
		r.GreaterOrEqual(got.MaxInline, asked.MaxInline)
		r.NoError(qp.Close())
	}
}

func queuePairNumbers(r *rig) {
	cq := r.newCQ(verbs.CQAttr{Depth: 64})
	seen := map[uint32]bool{}
	for range 50 {
		qp, err := r.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: cq, RecvCQ: cq})
		r.NoError(err)
		r.closing("QP", qp.Close)
		// 0 and 1 belong to the port (SMI and GSI). 0xffffff means multicast.
		r.True(qp.Num() > 1 && qp.Num() < 0xffffff, "number %#x", qp.Num())
		r.False(seen[qp.Num()], "number %#x twice", qp.Num())
		seen[qp.Num()] = true
	}
}

// legalSteps returns the states that may follow a state (IBTA vol. 1, 10.3.1). RESET and
// ERROR may always follow and are not listed.
func legalSteps(from verbs.QPState) []verbs.QPState {
	switch from {
	case verbs.StateReset:
		return []verbs.QPState{verbs.StateInit}
	case verbs.StateInit:
		return []verbs.QPState{verbs.StateInit, verbs.StateRTR}
	case verbs.StateRTR:
		return []verbs.QPState{verbs.StateRTS}
	case verbs.StateRTS:
		return []verbs.QPState{verbs.StateRTS, verbs.StateSQD}
	case verbs.StateSQD:
		return []verbs.QPState{verbs.StateRTS, verbs.StateSQD}
	}
	return nil
}

// noOtherStep tries every transition that is not allowed. Each must fail and leave the
// state unchanged.
func (e *end) noOtherStep() {
	e.r.t.Helper()
	from := e.qp.State()
	for to := verbs.StateInit; to <= verbs.StateError+1; to++ {
		if to == verbs.StateError || slices.Contains(legalSteps(from), to) {
			continue
		}
		err := e.qp.Modify(&verbs.QPAttr{State: to}, verbs.AttrState)
		var transition *verbs.TransitionError
		e.r.ErrorAs(err, &transition, "from %v to %v", from, to)
		e.r.ErrorIs(err, verbs.ErrState)
		e.r.Equal(from, transition.From)
		e.r.Equal(to, transition.To)
		e.r.Equal(from, e.qp.State())
	}
}

// posting tries to post to both queues. The state decides whether a queue accepts the
// request or returns ErrState.
func (e *end) posting() {
	e.r.t.Helper()
	state := e.qp.State()
	if state < verbs.StateRTS {
		n, err := e.qp.PostSend([]verbs.SendWR{send(1)})
		e.r.ErrorIs(err, verbs.ErrState, "send in %v", state)
		e.r.Zero(n)
	}
	if state == verbs.StateReset {
		n, err := e.qp.PostRecv([]verbs.RecvWR{{ID: 1}})
		e.r.ErrorIs(err, verbs.ErrState, "receive in %v", state)
		e.r.Zero(n)
		return
	}
	e.recv(uint64(state), e.sge(0, 64))
}

func (e *end) checkState() {
	e.r.t.Helper()
	attr, err := e.qp.Query()
	e.r.NoError(err)
	e.r.Equal(e.qp.State(), attr.State)
	e.noOtherStep()
	e.posting()
}

// toInit moves a queue pair from RESET to INIT.
func (e *end) toInit() {
	e.r.t.Helper()
	attr := verbs.QPAttr{State: verbs.StateInit, Port: e.r.port, Access: verbs.AccessRemoteWrite}
	mask := verbs.AttrState | verbs.AttrPort | verbs.AttrAccess
	if e.qp.Type() == verbs.QPTypeUD {
		attr.QKey = qkey
		mask = verbs.AttrState | verbs.AttrPort | verbs.AttrQKey
	}
	e.modify(mask, attr)
	e.r.Equal(verbs.StateInit, e.qp.State())
}

func unconnectedSteps(r *rig) {
	e := r.bare(verbs.QPTypeRC)
	e.checkState()
	e.toState(verbs.StateReset)
	e.toInit()
	e.checkState()
	e.toInit()
	e.toState(verbs.StateError)
	e.noOtherStep()
	e.recvs.fail(verbs.StatusWRFlushErr, e.qp, uint64(verbs.StateInit))
	e.toState(verbs.StateError)
	e.toState(verbs.StateReset)
	e.checkState()
	e.toInit()
	e.toState(verbs.StateReset)
}

// connectedStates checks every state of a connection from RESET to RTS and back. Receive
// buffers posted in INIT and RTR must work in RTS.
func connectedStates(r *rig, late bool) {
	var visited []verbs.QPState
	p := r.connectExternal(&stateSteps{rtrAfterAccept: late, afterStep: func(e *end) {
		e.checkState()
		visited = append(visited, e.qp.State())
	}})
	r.Len(visited, 6)

	p.a.post(send(1, p.a.sge(64, 8)))
	p.b.post(send(1, p.b.sge(64, 8)))
	for _, e := range []*end{p.a, p.b} {
		e.sends.one()
		r.Equal(uint64(verbs.StateInit), e.recvs.one().ID)
	}
	for _, e := range []*end{p.a, p.b} {
		e.toState(verbs.StateSQD)
		e.checkState()
		e.toState(verbs.StateRTS)
		e.toState(verbs.StateError)
		e.noOtherStep()
		e.recvs.fail(verbs.StatusWRFlushErr, e.qp, uint64(verbs.StateRTR), uint64(verbs.StateRTS), uint64(verbs.StateSQD))
		e.toState(verbs.StateReset)
		e.checkState()
	}
}

func datagramStates(r *rig) {
	r.requires(lacksUD)
	e := r.bare(verbs.QPTypeUD)
	e.checkState()
	e.toInit()
	e.checkState()
	e.toState(verbs.StateRTR)
	e.checkState()
	e.modify(verbs.AttrState|verbs.AttrSQPSN, verbs.QPAttr{State: verbs.StateRTS, SQPSN: 0x123456})
	e.checkState()
	e.modify(verbs.AttrQKey, verbs.QPAttr{QKey: qkey + 1})
	attr, err := e.qp.Query()
	r.NoError(err)
	r.Equal(uint32(qkey+1), attr.QKey)
	e.toState(verbs.StateSQD)
	e.toState(verbs.StateRTS)
	e.toState(verbs.StateReset)
	e.checkState()
}

func wrongAttributes(r *rig) {
	e := r.bare(verbs.QPTypeRC)
	attr := verbs.QPAttr{State: verbs.StateInit, Port: r.port}
	var transition *verbs.TransitionError
	r.ErrorAs(e.qp.Modify(&attr, verbs.AttrState|verbs.AttrPort), &transition)
	r.Equal(verbs.AttrAccess, transition.Missing)
	mask := verbs.AttrState | verbs.AttrPort | verbs.AttrAccess | verbs.AttrQKey
	r.ErrorAs(e.qp.Modify(&attr, mask), &transition)
	r.Equal(verbs.AttrQKey, transition.Extra)
	for _, port := range []int{0, r.attr.NumPorts + 1} {
		attr.Port = uint8(port)
		r.Error(e.qp.Modify(&attr, verbs.AttrState|verbs.AttrPort|verbs.AttrAccess), "port %d", port)
	}
	r.Equal(verbs.StateReset, e.qp.State())
}

func queryAttributes(r *rig) {
	p := r.pair(func(a, b *plan) {
		a.param.RetryCount = 5
		a.param.RNRRetryCount, b.param.RNRRetryCount = 2, 3
	})
	a, err := p.a.qp.Query()
	r.NoError(err)
	b, err := p.b.qp.Query()
	r.NoError(err)
	r.Equal(verbs.StateRTS, a.State)
	r.Equal(p.b.qp.Num(), a.DestQPN)
	r.Equal(p.a.qp.Num(), b.DestQPN)
	r.NotZero(a.PathMTU.Bytes())
	r.Equal(a.PathMTU, b.PathMTU)
	r.Equal(a.SQPSN, b.RQPSN)
	r.Equal(b.SQPSN, a.RQPSN)
	r.Equal(uint8(5), a.RetryCount)
	r.Equal(uint8(5), b.RetryCount, "the retry count of the connecting side applies to both sides")
	r.Equal(uint8(3), a.RNRRetry, "the RNR retry count of each side applies to the queue pair of the other side")
	r.Equal(uint8(2), b.RNRRetry, "the RNR retry count of each side applies to the queue pair of the other side")
	r.Equal(a.MaxRdAtomic, b.MaxDestRdAtomic)
	r.Equal(b.MaxRdAtomic, a.MaxDestRdAtomic)
}

func changeConnected(r *rig) {
	p := r.pair(nil)
	p.a.modify(verbs.AttrAccess|verbs.AttrMinRNRTimer, verbs.QPAttr{Access: verbs.AccessRemoteRead, MinRNRTimer: 9})
	attr, err := p.a.qp.Query()
	r.NoError(err)
	r.Equal(verbs.AccessRemoteRead, attr.Access&^verbs.AccessLocalWrite)
	r.Equal(uint8(9), attr.MinRNRTimer)
	r.Equal(verbs.StateRTS, attr.State)
	r.Error(p.a.qp.Modify(&verbs.QPAttr{RetryCount: 3}, verbs.AttrRetryCount), "the retry count can not be changed in RTS")
}

// drainedSendQueue posts a request in SQD. It must not start before RTS, but messages are
// still received (IBTA vol. 1, 10.3.1.5).
func drainedSendQueue(r *rig) {
	p := r.pair(nil)
	p.a.recv(1, p.a.sge(0, 64))
	p.b.recv(1, p.b.sge(0, 64))
	p.a.toState(verbs.StateSQD)
	p.a.post(send(7, p.a.sge(64, 8)))
	p.b.post(send(8, p.b.sge(64, 8)))
	p.b.sends.one()
	p.a.recvs.one()
	r.Empty(p.a.sends.wcs, "no request starts in SQD")
	r.Empty(p.b.recvs.wcs, "no request starts in SQD")
	p.a.toState(verbs.StateRTS)
	r.Equal(uint64(7), p.a.sends.one().ID)
	p.b.recvs.one()
}

// resetQueuePair moves a queue pair with requests to RESET. The requests must disappear
// without completions.
func resetQueuePair(r *rig) {
	p := r.pair(nil)
	for i := range 4 {
		p.a.recv(uint64(i), p.a.sge(0, 64))
		// End b has no receive buffer, so this request does not complete.
		p.a.post(send(uint64(i), p.a.sge(0, 64)))
	}
	p.a.toState(verbs.StateReset)
	p.a.posting()
	p.a.toInit()
	p.a.recv(9, p.a.sge(0, 64))
	p.a.toState(verbs.StateError)
	p.a.recvs.fail(verbs.StatusWRFlushErr, p.a.qp, 9)
}
