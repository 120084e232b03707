package providertest

import "github.com/rdmaloop/rdmaloop/verbs"

// windowFaultCases returns cases with requests that fail because of a window.
func windowFaultCases() []testCase {
	access := func(name string, kind Violation, op verbs.Opcode, key func(p *pair, wr *verbs.SendWR)) fault {
		return fault{name: op.String() + ", " + name, kind: kind, plan: windowPlans, faulty: func(p *pair) verbs.SendWR {
			wr := p.a.remote(op, wrongID, p.b, windowAt, p.a.sge(0, 64))
			fill(p.a.bytes(0, 64), 1)
			key(p, &wr)
			return wr
		}}
	}
	window := func(rights verbs.Access) func(p *pair, wr *verbs.SendWR) {
		return func(p *pair, wr *verbs.SendWR) { wr.RKey = p.b.newWindow(windowAt, windowLen, rights).RKey() }
	}
	var faults []fault
	for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead} {
		faults = append(faults,
			access("region without remote rights", RemoteAccess, op, func(*pair, *verbs.SendWR) {}),
			access("right missing on the window", RemoteAccess, op, window(remoteRights&^requiredAccess(op))),
			access("free window", RemoteAccess, op, func(p *pair, wr *verbs.SendWR) { wr.RKey = p.b.allocMW().RKey() }),
			access("closed window", RemoteAccess, op, func(p *pair, wr *verbs.SendWR) {
				w := p.b.newWindow(windowAt, windowLen, remoteRights)
				wr.RKey = w.RKey()
				p.NoError(w.Close())
			}),
			access("key after local invalidation", RemoteAccess, op, func(p *pair, wr *verbs.SendWR) {
				window(remoteRights)(p, wr)
				p.b.post(invalidate(1, wr.RKey))
				p.b.sends.inOrder(1)
			}),
			access("key before the last bind", RemoteAccess, op, func(p *pair, wr *verbs.SendWR) {
				w := p.b.newWindow(windowAt, windowLen, remoteRights)
				wr.RKey = w.RKey()
				p.b.post(invalidate(1, wr.RKey), p.b.bind(2, w, windowAt, windowLen, remoteRights))
				p.b.sends.inOrder(1, 2)
			}),
			access("window of another queue pair", RemoteAccess, op, func(p *pair, wr *verbs.SendWR) {
				q := p.pair(windowPlans)
				w := q.b.allocMW()
				bind := q.b.bind(1, w, windowAt, windowLen, remoteRights)
				bind.Bind.MR, bind.Bind.Addr = p.b.mr, p.b.mr.Addr()+windowAt
				q.b.post(bind)
				q.b.sends.inOrder(1)
				wr.RKey = w.RKey()
			}),
			access("one byte before the window", WindowBounds, op, func(p *pair, wr *verbs.SendWR) {
				window(remoteRights)(p, wr)
				wr.RemoteAddr--
			}),
			access("one byte after the window", WindowBounds, op, func(p *pair, wr *verbs.SendWR) {
				window(remoteRights)(p, wr)
				wr.RemoteAddr += windowLen - 63
			}),
		)
	}
	return append(cases(faults), append(cases(bindFaults()), cases(invalidationFaults())...)...)
}

// bindFaults returns faults with binds that are not allowed.
func bindFaults() []fault {
	bind := func(name string, change func(p *pair, wr *verbs.SendWR)) fault {
		return fault{name: name, kind: BindNotAllowed, plan: windowPlans, faulty: func(p *pair) verbs.SendWR {
			wr := p.a.bind(wrongID, p.a.allocMW(), windowAt, windowLen, remoteRights)
			change(p, &wr)
			return wr
		}}
	}
	region := func(access verbs.Access) func(p *pair, wr *verbs.SendWR) {
		return func(p *pair, wr *verbs.SendWR) {
			mr := p.alloc(p.pd, windowLen, access)
			wr.Bind.MR, wr.Bind.Addr = mr, mr.Addr()
		}
	}
	return []fault{
		bind("region without the right", region(verbs.AccessAll)),
		bind("region without local write", region(verbs.AccessMWBind|verbs.AccessRemoteRead)),
		bind("one byte after the region", func(_ *pair, wr *verbs.SendWR) { wr.Bind.Addr += memorySize - windowAt - windowLen + 1 }),
		bind("one byte before the region", func(_ *pair, wr *verbs.SendWR) { wr.Bind.Addr -= windowAt + 1 }),
		bind("longer than the region", func(_ *pair, wr *verbs.SendWR) { wr.Bind.Length = 1 << 62 }),
		bind("bound window", func(p *pair, wr *verbs.SendWR) {
			p.a.post(*wr)
			p.a.sends.inOrder(wrongID)
			wr.RKey = verbs.IncRKey(wr.RKey)
		}),
	}
}

// invalidationFaults returns faults with keys that can not be invalidated.
func invalidationFaults() []fault {
	invalidation := func(name string, key func(p *pair, e *end) uint32) []fault {
		return invalidations(name, LocalInvalidation, RemoteInvalidation, key)
	}
	faults := invalidation("region", func(_ *pair, e *end) uint32 { return e.mr.RKey() })
	faults = append(faults, invalidation("unknown key", func(_ *pair, e *end) uint32 { return ^e.mr.RKey() })...)
	faults = append(faults, invalidation("closed window", func(_ *pair, e *end) uint32 {
		w := e.newWindow(windowAt, windowLen, remoteRights)
		e.r.NoError(w.Close())
		return w.RKey()
	})...)
	faults = append(faults, invalidation("key before the last bind", func(_ *pair, e *end) uint32 {
		w := e.newWindow(windowAt, windowLen, remoteRights)
		key := w.RKey()
		e.post(invalidate(1, key), e.bind(2, w, windowAt, windowLen, remoteRights))
		e.sends.inOrder(1, 2)
		return key
	})...)
	return append(faults, invalidations("bound window", LocalOtherQP, RemoteOtherQP, func(p *pair, _ *end) uint32 {
		return p.pair(windowPlans).b.newWindow(windowAt, windowLen, remoteRights).RKey()
	})...)
}

// invalidations returns a fault with a local invalidation, and one with a SEND with
// invalidate.
func invalidations(name string, local, remote Violation, key func(p *pair, e *end) uint32) []fault {
	return []fault{
		{name: "local, " + name, kind: local, plan: windowPlans, faulty: func(p *pair) verbs.SendWR {
			return invalidate(wrongID, key(p, p.a))
		}},
		{name: "remote, " + name, kind: remote, plan: windowPlans, faulty: func(p *pair) verbs.SendWR {
			return sendInv(wrongID, key(p, p.b))
		}},
	}
}
