package providertest

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A fault is a test case in which end a posts a request that violates a rule. The fields
// plan, prepare and recv may be nil.
type fault struct {
	name    string
	kind    Violation
	plan    func(a, b *plan)
	prepare func(p *pair) // called before the first request is posted
	// Returns the receive buffer for the faulty request. If it is nil, the buffer is
	// valid.
	recv   func(p *pair) []verbs.SGE
	faulty func(p *pair) verbs.SendWR // returns the request that violates the rule
}

// End a posts the faulty request wrongID and then the correct request afterID. End b
// posts the receive buffers recvID and recvAfterID.
const (
	wrongID, afterID          = 1, 2
	recvID, recvAfterID       = 3, 4
	faultRecvAt, faultRecvLen = 200 << 10, 4096
)

// test posts a faulty request and a correct one, and checks the completions of both ends.
func (f fault) test(r *rig) {
	p := r.pair(f.plan)
	if f.prepare != nil {
		f.prepare(p)
	}
	f.post(p)
}

func (f fault) post(p *pair) {
	p.t.Helper()
	buffer := []verbs.SGE{p.b.sge(faultRecvAt, faultRecvLen)}
	if f.recv != nil {
		buffer = f.recv(p)
	}
	p.b.recv(recvID, buffer...)
	p.b.recv(recvAfterID, p.b.sge(faultRecvAt, faultRecvLen))
	wr := f.faulty(p)
	want := p.outcome(f.kind)
	if want.Refused {
		n, err := p.a.qp.PostSend([]verbs.SendWR{wr})
		p.Error(err)
		p.Zero(n)
		p.a.post(send(afterID))
		p.a.sends.inOrder(afterID)
		p.b.recvs.inOrder(recvID)
		p.b.recvs.drop()
		return
	}
	if want.Executed {
		f.executed(p, wr)
		return
	}
	before := slices.Clone(p.b.mr.Bytes())
	p.a.post(wr, send(afterID))

	if want.Requester == verbs.StatusSuccess {
		p.a.sends.inOrder(wrongID)
	} else {
		p.a.sends.fail(want.Requester, p.a.qp, wrongID)
		p.a.sends.fail(verbs.StatusWRFlushErr, p.a.qp, afterID)
		p.Equal(verbs.StateError, p.a.qp.State())
	}
	if want.Responder == verbs.StatusSuccess {
		p.Equal(verbs.StateRTS, p.b.qp.State())
		p.Empty(p.b.recvs.wcs)
	} else {
		p.b.recvs.fail(want.Responder, p.b.qp, recvID)
		p.b.recvs.fail(verbs.StatusWRFlushErr, p.b.qp, recvAfterID)
		p.Equal(verbs.StateError, p.b.qp.State())
	}
	if f.kind != RecvTooShort {
		p.True(bytes.Equal(before, p.b.mr.Bytes()), "memory of the responder was changed")
	}
}

// executed checks that the device executes a request that violates a rule.
func (f fault) executed(p *pair, wr verbs.SendWR) {
	p.t.Helper()
	p.a.post(wr, send(afterID))
	p.a.sends.inOrder(wrongID, afterID)
	p.b.recvs.one()
	p.b.recvs.drop()
}

func cases(faults []fault) []testCase {
	list := make([]testCase, len(faults))
	for i, f := range faults {
		list[i] = testCase{string(f.kind) + ": " + f.name, f.test}
	}
	return list
}

func faultCases() []testCase {
	all := slices.Concat(recvFaults(), localFaults(), remoteFaults())
	return append(cases(all),
		testCase{string(NoResponderResources), noResponderResources},
		testCase{"good requests before a wrong one succeed", goodBeforeWrong},
		testCase{"another connection is not affected", faultIsolated},
	)
}

// message returns a function that makes a SEND of size bytes.
func message(size int) func(p *pair) verbs.SendWR {
	return func(p *pair) verbs.SendWR {
		fill(p.a.bytes(0, size), 1)
		return send(wrongID, p.a.sge(0, size))
	}
}

func recvFaults() []fault {
	short := func(sizes ...int) func(p *pair) []verbs.SGE {
		return func(p *pair) []verbs.SGE {
			var sges []verbs.SGE
			for i, size := range sizes {
				sges = append(sges, p.b.sge(i*16384, size))
			}
			return sges
		}
	}
	faults := []fault{
		{name: "by one byte", kind: RecvTooShort, recv: short(64), faulty: message(65)},
		{name: "no buffer at all", kind: RecvTooShort, recv: short(), faulty: message(1)},
		{name: "several pieces", kind: RecvTooShort, recv: short(10, 20), faulty: message(31)},
		{name: "many packets", kind: RecvTooShort, recv: short(16384), faulty: message(100000)},
	}
	for _, bad := range badMemory() {
		faults = append(faults, fault{
			name: bad.name, kind: RecvInaccessible, faulty: message(64),
			recv: func(p *pair) []verbs.SGE { return []verbs.SGE{bad.sge(p.b)} },
		})
	}
	return faults
}

// A badSGE makes an SGE of 64 bytes to which the device must not write.
type badSGE struct {
	name string
	sge  func(e *end) verbs.SGE
	read bool // true if the device may read the memory
	// True if the key is wrong. If false, the bounds or the access rights are wrong.
	key bool
}

func badMemory() []badSGE {
	return []badSGE{
		{name: "unknown key", key: true, sge: func(e *end) verbs.SGE {
			return verbs.SGE{Addr: e.mr.Addr(), Length: 64, LKey: ^e.mr.LKey()}
		}},
		{name: "one byte after the end", sge: func(e *end) verbs.SGE { return e.sge(memorySize-63, 64) }},
		{name: "one byte before the start", sge: func(e *end) verbs.SGE { return e.sge(-1, 64) }},
		{name: "around the end of the address space", sge: func(e *end) verbs.SGE {
			return verbs.SGE{Addr: math.MaxUint64 - 31, Length: 64, LKey: e.mr.LKey()}
		}},
		{name: "of another domain", key: true, sge: func(e *end) verbs.SGE {
			return verbs.SGEOf(e.r.alloc(e.r.newPD(), 4096, verbs.AccessAll), 0, 64)
		}},
		{name: "closed region", key: true, sge: func(e *end) verbs.SGE {
			mr := e.r.alloc(e.r.pd, 4096, verbs.AccessAll)
			sge := verbs.SGEOf(mr, 0, 64)
			e.r.NoError(mr.Close())
			return sge
		}},
		{name: "no local write", read: true, sge: func(e *end) verbs.SGE {
			return verbs.SGEOf(e.r.alloc(e.r.pd, 4096, 0), 0, 64)
		}},
	}
}

// localFaults returns faults with a bad SGE in end a's memory. A SEND or WRITE reads this
// memory, and a READ writes to it.
func localFaults() []fault {
	var faults []fault
	for _, bad := range badMemory() {
		kind := LocalProtection
		if bad.key {
			kind = PayloadKey
		}
		if !bad.read {
			faults = append(faults, fault{
				name: "SEND, " + bad.name, kind: kind,
				faulty: func(p *pair) verbs.SendWR { return send(wrongID, p.a.sge(0, 8), bad.sge(p.a)) },
			}, fault{
				name: "WRITE, " + bad.name, kind: kind,
				faulty: func(p *pair) verbs.SendWR { return p.a.remote(verbs.OpWrite, wrongID, p.b, 0, bad.sge(p.a)) },
			})
		}
		faults = append(faults, fault{
			name: "READ, " + bad.name, kind: LocalProtection,
			faulty: func(p *pair) verbs.SendWR { return p.a.remote(verbs.OpRead, wrongID, p.b, 0, bad.sge(p.a)) },
		})
	}
	return faults
}

// A badTarget changes the remote address or key of a request. After that, end a may not
// access the memory.
type badTarget struct {
	name  string
	apply func(p *pair, wr *verbs.SendWR)
}

func badTargets() []badTarget {
	return []badTarget{
		{"unknown key", func(p *pair, wr *verbs.SendWR) { wr.RKey = ^p.b.mr.RKey() }},
		{"8 bytes after the end", func(p *pair, wr *verbs.SendWR) { wr.RemoteAddr += memorySize }},
		{"before the start", func(p *pair, wr *verbs.SendWR) { wr.RemoteAddr -= 8 }},
		{"around the end of the address space", func(_ *pair, wr *verbs.SendWR) { wr.RemoteAddr = math.MaxUint64 - 7 }},
		{"of another domain", func(p *pair, wr *verbs.SendWR) {
			mr := p.alloc(p.newPD(), 4096, verbs.AccessAll)
			wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey()
		}},
		{"closed region", func(p *pair, wr *verbs.SendWR) {
			mr := p.alloc(p.pd, 4096, verbs.AccessAll)
			wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey()
			p.NoError(mr.Close())
		}},
	}
}

// requiredAccess returns the access right that the operation needs at the responder.
func requiredAccess(op verbs.Opcode) verbs.Access {
	switch {
	case op.Atomic():
		return verbs.AccessRemoteAtomic
	case op == verbs.OpRead:
		return verbs.AccessRemoteRead
	}
	return verbs.AccessRemoteWrite
}

// faultsOf returns the faults of an operation that the responder must detect.
func faultsOf(op verbs.Opcode, kind Violation) []fault {
	request := func(p *pair) verbs.SendWR {
		wr := p.a.remote(op, wrongID, p.b, 0, p.a.sge(64, 8))
		p.a.setWord(64, math.MaxUint64)
		wr.CompareAdd, wr.Swap = 0, 1
		return wr
	}
	var faults []fault
	for _, bad := range badTargets() {
		faults = append(faults, fault{name: op.String() + ", " + bad.name, kind: kind, faulty: func(p *pair) verbs.SendWR {
			wr := request(p)
			bad.apply(p, &wr)
			return wr
		}})
	}
	return append(faults, fault{
		name: op.String() + ", right missing on the memory", kind: kind, faulty: request,
		plan: func(_, b *plan) { b.access &^= requiredAccess(op) },
	}, fault{
		name: op.String(), kind: NotEnabled, faulty: request,
		prepare: func(p *pair) {
			all := verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
			p.b.modify(verbs.AttrAccess, verbs.QPAttr{Access: all &^ requiredAccess(op)})
		},
	})
}

func remoteFaults() []fault {
	faults := slices.Concat(faultsOf(verbs.OpWrite, RemoteAccess), faultsOf(verbs.OpRead, RemoteAccess))
	// The responder must check the whole range before it reads or writes the first byte
	// (IBTA vol. 1, 9.7.4.1).
	for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead} {
		faults = append(faults, fault{
			name: op.String() + ", last byte of many outside", kind: RemoteAccess,
			faulty: func(p *pair) verbs.SendWR {
				fill(p.a.bytes(0, 100000), 1)
				return p.a.remote(op, wrongID, p.b, memorySize-99999, p.a.sge(0, 100000))
			},
		})
	}
	return faults
}

func atomicFaultCases() []testCase {
	faults := slices.Concat(faultsOf(verbs.OpCompareSwap, RemoteAccess), faultsOf(verbs.OpFetchAdd, RemoteAccess))
	for _, off := range []int{1, 4, 7} {
		faults = append(faults, fault{
			name: fmt.Sprintf("by %d", off), kind: Misaligned,
			faulty: func(p *pair) verbs.SendWR { return p.a.faa(wrongID, p.b, off, 0, 1) },
		})
	}
	return cases(faults)
}

// noResponderResources sends a READ to a queue pair that serves no READs.
func noResponderResources(r *rig) {
	p := r.connectExternal(&stateSteps{rtrAfterAccept: true, beforeStep: func(e *end, attr *verbs.QPAttr) {
		switch attr.State {
		case verbs.StateRTR:
			attr.MaxDestRdAtomic = 0
		case verbs.StateRTS:
			attr.MaxRdAtomic = 1
		}
	}})
	fault{kind: NoResponderResources, faulty: func(p *pair) verbs.SendWR {
		return p.a.remote(verbs.OpRead, wrongID, p.b, 0, p.a.sge(0, 8))
	}}.post(p)
}

// goodBeforeWrong checks that requests before a faulty one succeed.
func goodBeforeWrong(r *rig) {
	p := r.pair(nil)
	for i := range 5 {
		p.b.recv(uint64(i), p.b.sge(0, 64))
	}
	wrong := p.a.remote(verbs.OpWrite, 4, p.b, memorySize, p.a.sge(0, 8))
	p.a.post(append(p.a.manySends(0, 4), wrong, send(5), send(6))...)
	p.a.sends.inOrder(sequence(0, 4)...)
	want := r.outcome(RemoteAccess)
	p.a.sends.fail(want.Requester, p.a.qp, 4)
	p.a.sends.fail(verbs.StatusWRFlushErr, p.a.qp, 5, 6)
	p.b.recvs.inOrder(sequence(0, 4)...)
	p.b.recvs.fail(want.Responder, p.b.qp, 4)
}

func faultIsolated(r *rig) {
	bystander := r.pair(nil)
	p := r.pair(nil)
	p.a.post(p.a.remote(verbs.OpWrite, 1, p.b, memorySize, p.a.sge(0, 8)))
	p.a.sends.fail(r.outcome(RemoteAccess).Requester, p.a.qp, 1)
	bystander.ping()
}
