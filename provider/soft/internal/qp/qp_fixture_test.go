//go:build linux

package qp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A fakeHost is an engine whose queue pairs have fakePaths. It implements Host. Its time
// is now.
type fakeHost struct {
	*Engine
	now   time.Duration
	own   counters.Set
	ports *udp.Ports
}

func newFakeHost(t testing.TB, vectors int) *fakeHost { return newFakeHostAt(t, vectors, wire.UDPPort) }

// newFakeHostAt is like newFakeHost, for a host that opens sockets at the given port.
func newFakeHostAt(t testing.TB, vectors int, port uint16) *fakeHost {
	h := &fakeHost{ports: udp.NewPorts(port, ShardsOf(vectors), false)}
	var err error
	h.Engine, err = New(Config{
		Host: h, Vectors: vectors, Clock: func() time.Duration { return h.now },
		Access: access.NewErrorLimit(&h.own),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Engine.Close(func() {})) })
	return h
}

func (h *fakeHost) Name() string                               { return "fake" }
func (h *fakeHost) Caps() verbs.Caps                           { return verbs.Caps{} }
func (h *fakeHost) Attr() verbs.DeviceAttr                     { return Limits() }
func (h *fakeHost) Port(uint8) (verbs.PortAttr, error)         { return verbs.PortAttr{}, nil }
func (h *fakeHost) Counters(uint8) ([]verbs.Counter, error)    { return nil, nil }
func (h *fakeHost) AddShard(*Shard)                            {}
func (h *fakeHost) NewSockets(s *Shard) Sockets                { return s.UDPSockets(h.ports) }
func (h *fakeHost) NewDatagramPath(*QP) DatagramPath           { return nil }
func (h *fakeHost) Resolve(*verbs.AHAttr) (Destination, error) { return Destination{}, nil }
func (h *fakeHost) ReceiveMAD(wire.Packet, *udp.Header) bool   { return false }

func (h *fakeHost) Connect(q *QP, _ *verbs.QPAttr) error {
	p := &fakePath{q: q}
	p.entry.Conn = p
	q.Shard.Polls.Activate(&p.entry)
	q.UseLocal(p)
	return nil
}

// A fakePath is the path of a queue pair to a peer that the test plays. The fragments of
// the peer arrive when the shard polls the path, or when the queue pair asks for them.
type fakePath struct {
	q       *QP
	source  access.Source       // source of the peer; zero if the peer is this process
	arrived []fragment.Fragment // fragments that have arrived and were not delivered yet
	sent    uint64              // number of requests that were sent
	polls   int                 // number of calls of poll
	arms    int                 // number of calls of arm
	entry   PollEntry           // entry of the path in the schedule of the shard
}

// arrive lets a fragment of a SEND arrive, with n bytes.
func (p *fakePath) arrive(flags fragment.Flags, n int) {
	p.arrived = append(p.arrived, fragment.Fragment{Op: fragment.Send, Flags: flags, Payload: make([]byte, n)})
}

// Transmit implements path. Each request is one fragment.
func (p *fakePath) Transmit() {
	for w := p.q.NextToSend(); w != nil; w = p.q.NextToSend() {
		p.q.MarkSent(w, p.sent)
		p.sent++
	}
}

// Acked implements path. The peer of a fakePath acknowledges nothing.
func (p *fakePath) Acked() uint64 { return 0 }

func (p *fakePath) Detach()            { p.q.Shard.Polls.Remove(&p.entry) }
func (p *fakePath) StopResponding()    {}
func (p *fakePath) Abort(a Outcome)    { p.q.RequestFailed(a) }
func (p *fakePath) AttributesChanged() {}
func (p *fakePath) TakeAcks() bool     { return false }

func (p *fakePath) AccessSource() (access.Source, bool) { return p.source, p.source != access.Source{} }

func (p *fakePath) SendInline(verbs.SendFlags, []byte) (uint64, bool) { return 0, false }

// ConsumeArrived implements LocalPath. A fragment that the queue pair refuses with
// OutcomeRNR is lost.
func (p *fakePath) ConsumeArrived() {
	for len(p.arrived) > 0 && p.q.IsServing() {
		f := p.arrived[0]
		p.arrived = p.arrived[1:]
		if a := p.q.Deliver(&f); a != OutcomeAck && a != OutcomeRNR {
			p.q.RequestFailed(a)
		}
	}
}

func (p *fakePath) Poll() bool {
	p.polls++
	work := !p.IsIdle()
	p.ConsumeArrived()
	return work
}

func (p *fakePath) IsIdle() bool { return len(p.arrived) == 0 }

func (p *fakePath) Arm() bool {
	p.arms++
	return p.IsIdle()
}

// A fakeEnd is a queue pair with its PD, CQ and memory region.
type fakeEnd struct {
	t  testing.TB
	pd verbs.PD
	cq *cq
	qp *QP
	mr verbs.MR
}

// fakeEndSize is the size of the region of a fakeEnd in bytes.
const fakeEndSize = 1 << 20

// newFakeEnd makes an end in manual progress. The parameter ch may be nil.
func newFakeEnd(t testing.TB, h *fakeHost, ch verbs.CompChannel) *fakeEnd {
	e := &fakeEnd{t: t}
	var err error
	e.pd, err = h.AllocPD()
	require.NoError(t, err)
	e.cq, err = h.createCQ(&verbs.CQAttr{Depth: 1024, Progress: verbs.ProgressManual, Channel: ch})
	require.NoError(t, err)
	e.mr, err = e.pd.Alloc(&verbs.AllocAttr{Size: fakeEndSize, Access: verbs.AccessAll})
	require.NoError(t, err)
	e.qp = e.newQP(&verbs.QPInitAttr{Caps: verbs.QPCaps{MaxSendWR: 128, MaxRecvWR: 128, MaxInline: 128}})
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{e.qp, e.mr, e.cq, e.pd} {
			require.NoError(t, c.Close())
		}
	})
	return e
}

// newQP makes an RC queue pair that completes on the CQ of e.
func (e *fakeEnd) newQP(attr *verbs.QPInitAttr) *QP {
	attr.Type, attr.SendCQ, attr.RecvCQ = verbs.QPTypeRC, e.cq, e.cq
	q, err := e.pd.CreateQP(attr)
	require.NoError(e.t, err)
	return q.(*QP)
}

// connect moves the queue pair to RTS, and returns its path.
func (e *fakeEnd) connect() *fakePath {
	attr := verbs.QPAttr{Port: 1, Access: verbs.AccessAll, PathMTU: verbs.MTU4096, MaxDestRdAtomic: 16, MaxRdAtomic: 16,
		MinRNRTimer: 1, Timeout: 14, RetryCount: 7, RNRRetry: 7}
	const av, rtr = verbs.AttrAV | verbs.AttrPathMTU | verbs.AttrDestQPN, verbs.AttrRQPSN | verbs.AttrMaxDestRdAtomic | verbs.AttrMinRNRTimer
	const rts = verbs.AttrSQPSN | verbs.AttrTimeout | verbs.AttrRetryCount | verbs.AttrRNRRetry | verbs.AttrMaxRdAtomic
	for i, mask := range []verbs.QPAttrMask{verbs.AttrPort | verbs.AttrAccess, av | rtr, rts} {
		attr.State = verbs.StateInit + verbs.QPState(i)
		require.NoError(e.t, e.qp.Modify(&attr, mask|verbs.AttrState))
	}
	return e.qp.path.(*fakePath)
}

func (e *fakeEnd) recv(id uint64, length int) {
	_, err := e.qp.PostRecv([]verbs.RecvWR{{ID: id, SGEs: []verbs.SGE{verbs.SGEOf(e.mr, 0, length)}}})
	require.NoError(e.t, err)
}

// poll polls the CQ once, for at most n completions.
func (e *fakeEnd) poll(n int) []verbs.WC {
	wcs := make([]verbs.WC, n)
	n, err := e.cq.Poll(wcs)
	require.NoError(e.t, err)
	return wcs[:n]
}

// flushed adds n completions with StatusWRFlushErr to the CQ. They belong to a new queue
// pair, which flushed returns.
func (e *fakeEnd) flushed(n int) *QP {
	q := e.newQP(&verbs.QPInitAttr{Caps: verbs.QPCaps{MaxSendWR: n}})
	require.NoError(e.t, q.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	_, err := q.PostSend(make([]verbs.SendWR, n))
	require.NoError(e.t, err)
	return q
}

// stillShard returns a shard whose time is 0. Tests fire its timers.
func stillShard() *Shard { return &Shard{Clock: func() time.Duration { return 0 }} }
