package providertest

import "github.com/rdmaloop/rdmaloop/verbs"

// windowPlans allows memory windows in the memory of both ends. End b's memory has no
// remote rights, so end a can access it only through a window.
func windowPlans(a, b *plan) {
	a.access |= verbs.AccessMWBind
	b.access = verbs.AccessLocalWrite | verbs.AccessMWBind
}

// remoteRights are the rights that a window can have.
const remoteRights = verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic

// windowAt and windowLen are the offset and the length in bytes of the memory to which
// most tests bind a window.
const windowAt, windowLen = 8192, 4096

func windowCases() []testCase {
	return []testCase{
		{"one-sided operations", windowOperations},
		{"bind and SEND in one call", windowAnnounced},
		{"completions", windowCompletions},
		{"completion after requests without completion", windowCompletesLast},
		{"between refused SENDs", windowBetweenRetries},
		{"local invalidation and new bind", windowBoundAgain},
		{"SEND with invalidate", windowSendInv},
		{"many binds with SEND with invalidate", windowManyBinds},
		{"keys", windowKeys},
		{"region is in use", windowKeepsRegion},
		{"closing the queue pair", windowOfClosedQP},
		{"invalid requests", windowInvalidRequests},
	}
}

func (e *end) allocMW() verbs.MW {
	e.r.t.Helper()
	w, err := e.qp.PD().AllocMW()
	e.r.NoError(err)
	e.r.Equal(e.qp.PD(), w.PD())
	e.r.closing("MW", w.Close)
	return w
}

// bind returns a signaled request that binds a window to a part of the end's memory. The
// window gets its next key.
func (e *end) bind(id uint64, w verbs.MW, offset, length int, access verbs.Access) verbs.SendWR {
	return verbs.SendWR{
		ID: id, Opcode: verbs.OpBindMW, Flags: verbs.SendSignaled, RKey: verbs.IncRKey(w.RKey()),
		Bind: &verbs.MWBind{MW: w, MR: e.mr, Addr: e.mr.Addr() + uint64(offset), Length: uint64(length), Access: access},
	}
}

// newWindow returns a new window, which is bound to the end's memory.
func (e *end) newWindow(offset, length int, access verbs.Access) verbs.MW {
	e.r.t.Helper()
	w := e.allocMW()
	e.post(e.bind(0, w, offset, length, access))
	e.sends.inOrder(0)
	return w
}

// invalidate returns the request for a signaled local invalidation.
func invalidate(id uint64, key uint32) verbs.SendWR {
	return verbs.SendWR{ID: id, Opcode: verbs.OpLocalInv, Flags: verbs.SendSignaled, RKey: key}
}

// sendInv returns a signaled SEND with invalidate.
func sendInv(id uint64, key uint32, sges ...verbs.SGE) verbs.SendWR {
	return verbs.SendWR{ID: id, Opcode: verbs.OpSendInv, Flags: verbs.SendSignaled, RKey: key, SGEs: sges}
}

// through returns a request with which end e accesses memory of its peer. The request
// uses the key of the window w.
func (e *end) through(w verbs.MW, op verbs.Opcode, id uint64, peer *end, offset int, sges ...verbs.SGE) verbs.SendWR {
	wr := e.remote(op, id, peer, offset, sges...)
	wr.RKey = w.RKey()
	return wr
}

// windowOperations uses windows for WRITEs, READs and atomics. The WRITE and the READs
// cover a whole window, which is longer than a packet.
func windowOperations(r *rig) {
	p := r.pair(windowPlans)
	w := p.b.newWindow(windowAt, 100000, verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
	fill(p.a.bytes(0, 100000), 1)
	p.a.post(p.a.through(w, verbs.OpWrite, 1, p.b, windowAt, p.a.sge(0, 100000)))
	p.a.sends.inOrder(1)
	r.Equal(p.a.bytes(0, 100000), p.b.bytes(windowAt, 100000))
	p.b.requireZero(windowAt-8, 8)
	p.b.requireZero(windowAt+100000, 8)

	fill(p.b.bytes(windowAt, 100000), 2)
	p.a.post(p.a.through(w, verbs.OpRead, 2, p.b, windowAt, p.a.sge(0, 99992)),
		p.a.through(w, verbs.OpRead, 3, p.b, windowAt+99992, p.a.sge(99992, 8)))
	p.a.sends.inOrder(2, 3)
	r.Equal(p.b.bytes(windowAt, 100000), p.a.bytes(0, 100000))
	if r.dev.Caps().Atomics {
		w := p.b.newWindow(0, 8, remoteRights)
		p.b.setWord(0, 5)
		p.a.post(p.a.through(w, verbs.OpFetchAdd, 4, p.b, 0, p.a.sge(0, 8)))
		p.a.sends.inOrder(4)
		r.Equal(uint64(5), p.a.word(0))
	}
}

// windowAnnounced posts a bind and a SEND with one call. The SEND tells the peer the key
// of the window.
func windowAnnounced(r *rig) {
	p := r.pair(windowPlans)
	for i := range uint64(20) {
		w := p.b.allocMW()
		fill(p.b.bytes(windowAt, windowLen), i)
		p.a.recv(i, p.a.sge(0, 64))
		bind := p.b.bind(1, w, windowAt, windowLen, verbs.AccessRemoteRead)
		bind.Flags = 0
		p.b.post(bind, send(2, p.b.sge(0, 64)))
		p.a.recvs.inOrder(i)
		p.a.post(p.a.through(w, verbs.OpRead, 3, p.b, windowAt, p.a.sge(windowAt, windowLen)))
		p.a.sends.inOrder(3)
		p.b.sends.inOrder(2)
		r.Equal(p.b.bytes(windowAt, windowLen), p.a.bytes(windowAt, windowLen))
	}
}

func windowCompletions(r *rig) {
	p := r.pair(windowPlans)
	w := p.b.allocMW()
	p.b.post(p.b.bind(1, w, windowAt, windowLen, verbs.AccessRemoteRead), invalidate(2, verbs.IncRKey(w.RKey())))
	r.Equal(verbs.WC{ID: 1, Opcode: verbs.WCBindMW, QPN: p.b.qp.Num()}, p.b.sends.cleared())
	r.Equal(verbs.WC{ID: 2, Opcode: verbs.WCLocalInv, QPN: p.b.qp.Num()}, p.b.sends.cleared())
}

// cleared takes a successful completion, and clears the fields that have no meaning.
func (q *queue) cleared() verbs.WC {
	q.r.t.Helper()
	wc := q.one()
	wc.ByteLen, wc.VendorErr, wc.SrcQPN = 0, 0, 0
	return wc
}

// windowCompletesLast posts an unsignaled SEND, a bind and a local invalidation. The SEND
// must have no completion, and the other two requests must complete in order.
func windowCompletesLast(r *rig) {
	p := r.pair(windowPlans)
	w := p.a.allocMW()
	for i := range uint64(10) {
		p.b.recv(i, p.b.sge(0, 64))
		quiet := send(1, p.a.sge(0, 64))
		quiet.Flags = 0
		p.a.post(quiet, p.a.bind(2, w, windowAt, windowLen, remoteRights), invalidate(3, verbs.IncRKey(w.RKey())))
		p.a.sends.inOrder(2, 3)
		p.b.recvs.inOrder(i)
	}
}

// windowBetweenRetries posts a bind between SENDs that are repeated after RNR NAKs. The
// bind must be executed once.
func windowBetweenRetries(r *rig) {
	p := r.pair(func(a, b *plan) {
		windowPlans(a, b)
		b.param.RNRRetryCount = verbs.RNRRetryForever
	})
	p.b.modify(verbs.AttrMinRNRTimer, verbs.QPAttr{MinRNRTimer: rnrTimer})
	w := p.a.allocMW()
	p.a.post(send(1, p.a.sge(0, 64)), p.a.bind(2, w, windowAt, windowLen, verbs.AccessRemoteRead), send(3, p.a.sge(64, 64)))
	for i := range uint64(2) {
		// Meanwhile the SEND without a receive buffer is repeated.
		r.rnrPair(1).rnrExhausted()
		p.b.recv(i, p.b.sge(0, 64))
	}
	if status := r.outcome(BindRepeated).Requester; status != verbs.StatusSuccess {
		p.a.modify(verbs.AttrState, verbs.QPAttr{State: verbs.StateError})
		p.a.sends.fail(status, p.a.qp, 1, 2, 3)
		return
	}
	p.a.sends.inOrder(1, 2, 3)
	p.b.recvs.inOrder(0, 1)
	p.b.post(p.b.through(w, verbs.OpRead, 4, p.a, windowAt, p.b.sge(0, 64)))
	p.b.sends.inOrder(4)
}

// windowBoundAgain binds a window to other memory after a local invalidation.
func windowBoundAgain(r *rig) {
	p := r.pair(windowPlans)
	w := p.b.newWindow(0, 64, verbs.AccessRemoteWrite)
	fill(p.a.bytes(0, 64), 3)
	p.a.post(p.a.through(w, verbs.OpWrite, 1, p.b, 0, p.a.sge(0, 64)))
	p.a.sends.inOrder(1)
	p.b.post(invalidate(1, w.RKey()))
	p.b.sends.inOrder(1)
	p.b.post(p.b.bind(2, w, windowAt, windowLen, verbs.AccessRemoteRead))
	p.b.sends.inOrder(2)
	fill(p.b.bytes(windowAt, windowLen), 4)
	p.a.post(p.a.through(w, verbs.OpRead, 2, p.b, windowAt, p.a.sge(0, windowLen)))
	p.a.sends.inOrder(2)
	r.Equal(p.b.bytes(windowAt, windowLen), p.a.bytes(0, windowLen))
}

// windowSendInv invalidates windows with messages of zero bytes, and of one packet and
// several packets.
func windowSendInv(r *rig) {
	p := r.pair(windowPlans)
	w := p.b.allocMW()
	for _, size := range []int{0, 64, 4096, 50000} {
		p.b.post(p.b.bind(1, w, windowAt, windowLen, remoteRights))
		p.b.sends.inOrder(1)
		p.b.recv(2, p.b.sge(100000, 50000))
		fill(p.a.bytes(0, size), uint64(size))
		p.a.post(sendInv(3, w.RKey(), p.a.sge(0, size)))
		p.a.sends.inOrder(3)
		got := p.b.recvs.one()
		r.Equal(verbs.WC{ID: 2, Opcode: verbs.WCRecv, Flags: verbs.WCWithInv, Imm: w.RKey(), ByteLen: uint32(size), QPN: p.b.qp.Num()},
			verbs.WC{ID: got.ID, Opcode: got.Opcode, Flags: got.Flags, Imm: got.Imm, ByteLen: got.ByteLen, QPN: got.QPN})
		r.Equal(p.a.bytes(0, size), p.b.bytes(100000, size))
	}
}

// windowManyBinds binds a window until the lower 8 bits of its key have had each value.
// The peer invalidates the key after each bind.
func windowManyBinds(r *rig) {
	p := r.pair(windowPlans)
	w := p.b.allocMW()
	first := w.RKey()
	for i := range uint64(300) {
		at := int(i) * 8
		p.a.recv(i, p.a.sge(0, 8))
		p.b.recv(i, p.b.sge(0, 8))
		p.b.post(p.b.bind(1, w, windowAt+at, 8, verbs.AccessRemoteWrite), send(2, p.b.sge(0, 8)))
		r.Equal(first>>8, w.RKey()>>8)
		p.a.recvs.inOrder(i)
		p.a.setWord(windowAt+at, i)
		p.a.post(p.a.through(w, verbs.OpWrite, 3, p.b, windowAt+at, p.a.sge(windowAt+at, 8)), sendInv(4, w.RKey(), p.a.sge(0, 8)))
		r.Equal(w.RKey(), p.b.recvs.one().Imm)
		r.Equal(i, p.b.word(windowAt+at))
		p.a.sends.inOrder(3, 4)
		p.b.sends.inOrder(1, 2)
	}
}

// windowKeys checks that the keys of windows and regions differ in more than the lower 8
// bits.
func windowKeys(r *rig) {
	keys := map[uint32]bool{}
	for range 50 {
		w, err := r.pd.AllocMW()
		r.NoError(err)
		r.closing("MW", w.Close)
		mr := r.alloc(r.pd, 64, verbs.AccessAll)
		for _, key := range []uint32{w.RKey() >> 8, mr.RKey() >> 8} {
			r.False(key == w.RKey()>>8 && keys[key], "key %#x twice", key)
			keys[key] = true
		}
	}
}

// windowKeepsRegion checks that a region with a bound window can not be closed.
func windowKeepsRegion(r *rig) {
	p := r.pair(windowPlans)
	w := p.b.allocMW()
	mr := r.alloc(r.pd, 4096, verbs.AccessMWBind)
	bind := p.b.bind(1, w, 0, 64, verbs.AccessRemoteRead)
	bind.Bind.MR, bind.Bind.Addr = mr, mr.Addr()
	p.b.post(bind)
	p.b.sends.inOrder(1)
	r.ErrorIs(mr.Close(), verbs.ErrBusy)
	p.a.post(verbs.SendWR{
		ID: 2, Opcode: verbs.OpRead, Flags: verbs.SendSignaled, RemoteAddr: mr.Addr(), RKey: w.RKey(), SGEs: []verbs.SGE{p.a.sge(0, 64)},
	})
	p.a.sends.inOrder(2)
	p.b.post(invalidate(3, w.RKey()))
	p.b.sends.inOrder(3)
	r.NoError(mr.Close())

	other := p.b.newWindow(windowAt, windowLen, verbs.AccessRemoteRead)
	r.ErrorIs(p.b.mr.Close(), verbs.ErrBusy)
	r.NoError(other.Close())
	r.NoError(other.Close())
	pd := r.newPD()
	own, err := pd.AllocMW()
	r.NoError(err)
	r.ErrorIs(pd.Close(), verbs.ErrBusy)
	r.NoError(own.Close())
	r.NoError(pd.Close())
}

// windowOfClosedQP checks that closing a queue pair makes its windows free.
func windowOfClosedQP(r *rig) {
	p, q := r.pair(windowPlans), r.pair(windowPlans)
	w := p.b.newWindow(windowAt, windowLen, verbs.AccessRemoteRead)
	r.NoError(p.b.closeQP())
	bind := q.b.bind(1, w, windowAt, windowLen, verbs.AccessRemoteRead)
	q.b.post(bind)
	q.b.sends.inOrder(1)
	q.a.post(q.a.through(w, verbs.OpRead, 2, q.b, windowAt, q.a.sge(0, windowLen)))
	q.a.sends.inOrder(2)
}

// windowInvalidRequests posts requests whose arguments are wrong.
func windowInvalidRequests(r *rig) {
	p := r.pair(windowPlans)
	w := p.b.allocMW()
	refuse := func(what string, target any, change func(wr *verbs.SendWR)) {
		r.t.Helper()
		wr := p.b.bind(1, w, windowAt, windowLen, verbs.AccessRemoteRead)
		change(&wr)
		key := w.RKey()
		n, err := p.b.qp.PostSend([]verbs.SendWR{wr})
		r.Zero(n, what)
		r.Equal(key, w.RKey(), what)
		if target, ok := target.(error); ok {
			r.ErrorIs(err, target, what)
			return
		}
		r.requireParamError(err, what)
	}
	refuse("no bind", nil, func(wr *verbs.SendWR) { wr.Bind = nil })
	refuse("no window", nil, func(wr *verbs.SendWR) { wr.Bind.MW = nil })
	refuse("no region", nil, func(wr *verbs.SendWR) { wr.Bind.MR = nil })
	refuse("no bytes", nil, func(wr *verbs.SendWR) { wr.Bind.Length = 0 })
	refuse("local right", nil, func(wr *verbs.SendWR) { wr.Bind.Access |= verbs.AccessLocalWrite })
	refuse("key of another window", nil, func(wr *verbs.SendWR) { wr.RKey += 1 << 8 })
	refuse("SGE", nil, func(wr *verbs.SendWR) { wr.SGEs = []verbs.SGE{p.b.sge(0, 8)} })
	refuse("inline data", nil, func(wr *verbs.SendWR) { wr.Flags |= verbs.SendInline })
	refuse("invalidation with an SGE", nil, func(wr *verbs.SendWR) {
		wr.Opcode, wr.SGEs = verbs.OpLocalInv, []verbs.SGE{p.b.sge(0, 8)}
	})
	other := r.newPD()
	refuse("region of another domain", verbs.ErrForeign, func(wr *verbs.SendWR) {
		wr.Bind.MR = r.alloc(other, 4096, verbs.AccessMWBind)
	})
	refuse("window of another domain", verbs.ErrForeign, func(wr *verbs.SendWR) {
		foreign, err := other.AllocMW()
		r.NoError(err)
		r.closing("MW", foreign.Close)
		wr.Bind.MW, wr.RKey = foreign, foreign.RKey()
	})
	closed := p.b.allocMW()
	r.NoError(closed.Close())
	refuse("closed window", verbs.ErrClosed, func(wr *verbs.SendWR) { wr.Bind.MW, wr.RKey = closed, closed.RKey() })
	mr := r.alloc(r.pd, 4096, verbs.AccessMWBind)
	r.NoError(mr.Close())
	refuse("closed region", verbs.ErrClosed, func(wr *verbs.SendWR) { wr.Bind.MR = mr })
}
