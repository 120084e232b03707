//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// An end is a queue pair with its PD, CQ and memory region. Tests connect ends without
// connection management.
type end struct {
	t  testing.TB
	pd verbs.PD
	cq verbs.CQ
	qp *qp
	mr verbs.MR
	wc []verbs.WC
}

// endSize is the size of an end's memory region in bytes.
const endSize = 1 << 21

func openDevice(t testing.TB, cfg *Config) *device {
	p, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p.dev
}

func newEnd(t testing.TB, d *device, vector int, progress verbs.Progress) *end {
	return newEndOn(t, d, &verbs.CQAttr{Depth: 1024, Vector: vector, Progress: progress})
}

func newEndOn(t testing.TB, d *device, attr *verbs.CQAttr) *end {
	e := &end{t: t, wc: make([]verbs.WC, 64)}
	var err error
	e.pd, err = d.AllocPD()
	require.NoError(t, err)
	e.cq, err = d.CreateCQ(attr)
	require.NoError(t, err)
	e.mr, err = e.pd.Alloc(&verbs.AllocAttr{Size: endSize, Access: verbs.AccessAll})
	require.NoError(t, err)
	q, err := e.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: e.cq, RecvCQ: e.cq,
		Caps: verbs.QPCaps{MaxSendWR: 128, MaxRecvWR: 128, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 128}})
	require.NoError(t, err)
	e.qp = q.(*qp)
	t.Cleanup(e.close)
	return e
}

func (e *end) close() {
	for _, c := range []interface{ Close() error }{e.qp, e.mr, e.cq, e.pd} {
		require.NoError(e.t, c.Close())
	}
}

// connect connects e to peer, and moves e's queue pair to RTS. If the parameter change is
// not nil, this function modifies the attributes first.
func (e *end) connect(peer *end, change func(*verbs.QPAttr)) {
	attr := verbs.QPAttr{
		Port: 1, Access: verbs.AccessAll, DestQPN: peer.qp.num, PathMTU: verbs.MTU4096,
		MaxDestRdAtomic: 16, MaxRdAtomic: 16, MinRNRTimer: 1, Timeout: 14, RetryCount: 7, RNRRetry: 7,
	}
	if change != nil {
		change(&attr)
	}
	const av, rtr = verbs.AttrAV | verbs.AttrPathMTU | verbs.AttrDestQPN, verbs.AttrRQPSN | verbs.AttrMaxDestRdAtomic | verbs.AttrMinRNRTimer
	const rts = verbs.AttrSQPSN | verbs.AttrTimeout | verbs.AttrRetryCount | verbs.AttrRNRRetry | verbs.AttrMaxRdAtomic
	for _, step := range []struct {
		state verbs.QPState
		mask  verbs.QPAttrMask
	}{
		{verbs.StateInit, verbs.AttrPort | verbs.AttrAccess},
		{verbs.StateRTR, av | rtr},
		{verbs.StateRTS, rts},
	} {
		attr.State = step.state
		require.NoError(e.t, e.qp.Modify(&attr, step.mask|verbs.AttrState))
	}
}

// newPair makes two ends connected on the local path. They use the completion vectors 0
// and 1, if there are two.
func newPair(t testing.TB, d *device, progress verbs.Progress) (a, b *end) {
	a, b = newEnd(t, d, 0, progress), newEnd(t, d, 1, progress)
	a.connect(b, nil)
	b.connect(a, nil)
	becomeReady(a, b)
	return a, b
}

// becomeReady lets two connected queue pairs tell each other that they are ready.
func becomeReady(a, b *end) {
	for _, e := range []*end{a, b, a} {
		e.pollN(1)
	}
}

func (e *end) recv(id uint64, offset, length int) {
	_, err := e.qp.PostRecv([]verbs.RecvWR{{ID: id, SGEs: []verbs.SGE{verbs.SGEOf(e.mr, offset, length)}}})
	require.NoError(e.t, err)
}

func (e *end) post(wr verbs.SendWR) {
	_, err := e.qp.PostSend([]verbs.SendWR{wr})
	require.NoError(e.t, err)
}

// pollLimit is the number of polls after which a test fails. Arbitrary.
const pollLimit = 10_000_000

// wait polls an end until it has returned n completions. It also polls the other ends.
func (e *end) wait(n int, others ...*end) []verbs.WC {
	e.t.Helper()
	var got []verbs.WC
	for range pollLimit {
		k, err := e.cq.Poll(e.wc[:min(len(e.wc), n-len(got))])
		require.NoError(e.t, err)
		got = append(got, e.wc[:k]...)
		if len(got) == n {
			return got
		}
		for _, o := range others {
			_, err := o.cq.Poll(nil)
			require.NoError(o.t, err)
		}
	}
	require.FailNow(e.t, "completions have not arrived", "%d of %d", len(got), n)
	return nil
}

// deviceOf returns the device of a queue pair.
func deviceOf(q *qp) *device { return q.engine.host.(*device) }
