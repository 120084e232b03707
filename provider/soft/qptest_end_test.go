//go:build linux

package soft

import (
	"bytes"
	"testing"
	"time"

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

func newEnd(t testing.TB, d verbs.Device, vector int, progress verbs.Progress) *end {
	return newEndOn(t, d, &verbs.CQAttr{Depth: 1024, Vector: vector, Progress: progress})
}

func newEndOn(t testing.TB, d verbs.Device, attr *verbs.CQAttr) *end {
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
		Port: 1, Access: verbs.AccessAll, DestQPN: peer.qp.Num(), PathMTU: verbs.MTU4096,
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
func newPair(t testing.TB, d verbs.Device, progress verbs.Progress) (a, b *end) {
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

// pollN polls an end n times, and returns the completions.
func (e *end) pollN(drives int) []verbs.WC {
	var got []verbs.WC
	memory := make([]verbs.InlineData, len(e.wc))
	for range drives {
		n, err := e.cq.(verbs.InlinePoller).PollInline(e.wc, memory)
		require.NoError(e.t, err)
		got = append(got, e.wc[:n]...)
	}
	return got
}

// drainCQ polls an end until its CQ is empty. It returns the completions.
func (e *end) drainCQ() []verbs.WC {
	e.t.Helper()
	var got []verbs.WC
	for {
		n, err := e.cq.Poll(e.wc)
		require.NoError(e.t, err)
		if got = append(got, e.wc[:n]...); n < len(e.wc) {
			return got
		}
	}
}

// stopClock stops an end's clock, and returns a function that advances it.
func (e *end) stopClock() (advance func(time.Duration)) {
	now := e.qp.shard.clock()
	e.qp.shard.clock = func() time.Duration { return now }
	return func(d time.Duration) { now += d }
}

// pollForTimers polls an end until its shard has surely examined the timers. It returns
// the completions.
func (e *end) pollForTimers() []verbs.WC { return e.pollN(2 * ackEvery) }

// pollInline polls with PollInline until it has n completions, and returns them. The
// result data has the bytes of each inline message, and nil for each other completion.
func (e *end) pollInline(n int, others ...*end) (wcs []verbs.WC, data [][]byte) {
	e.t.Helper()
	memory := make([]verbs.InlineData, len(e.wc))
	for range pollLimit {
		k, err := e.cq.(verbs.InlinePoller).PollInline(e.wc[:min(len(e.wc), n-len(wcs))], memory)
		require.NoError(e.t, err)
		for i, wc := range e.wc[:k] {
			wcs = append(wcs, wc)
			if wc.Flags&verbs.WCInline == 0 {
				data = append(data, nil)
			} else {
				data = append(data, bytes.Clone(memory[i][:wc.ByteLen]))
			}
		}
		if len(wcs) == n {
			return wcs, data
		}
		for _, o := range others {
			_, err := o.cq.Poll(nil)
			require.NoError(o.t, err)
		}
	}
	require.FailNow(e.t, "completions have not arrived", "%d of %d", len(wcs), n)
	return nil, nil
}

// remote returns a request of e with the given length for the memory of peer.
func (e *end) remote(op verbs.Opcode, peer *end, length int) verbs.SendWR {
	return verbs.SendWR{ID: 7, Opcode: op, Flags: verbs.SendSignaled,
		SGEs: []verbs.SGE{verbs.SGEOf(e.mr, 0, length)}, RemoteAddr: peer.mr.Addr(), RKey: peer.mr.RKey()}
}

// requireSent requires that a request does not complete until the peer is polled. The
// completion must have the given status.
func (e *end) requireSent(peer *end, wr verbs.SendWR, want verbs.Status) {
	e.t.Helper()
	e.post(wr)
	require.Empty(e.t, e.pollN(100))
	require.Equal(e.t, want, e.wait(1, peer)[0].Status)
}

// waitStatus returns the status of the next completion, while the peer is polled too.
func (e *end) waitStatus(peer *end) verbs.Status { return e.wait(1, peer)[0].Status }

// reopenMR closes the region, and allocates another one.
func (e *end) reopenMR() {
	require.NoError(e.t, e.mr.Close())
	var err error
	e.mr, err = e.pd.Alloc(&verbs.AllocAttr{Size: endSize, Access: verbs.AccessAll})
	require.NoError(e.t, err)
}

// fail moves the queue pair to the error state.
func (e *end) fail() {
	require.NoError(e.t, e.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
}

// requireDirect requires that a request completes while the peer does nothing.
func (e *end) requireDirect(wr verbs.SendWR) {
	e.t.Helper()
	e.post(wr)
	got := e.pollN(1)
	require.Len(e.t, got, 1)
	require.Equal(e.t, verbs.StatusSuccess, got[0].Status)
	require.False(e.t, e.qp.outstanding())
}

func (e *end) share(peer *end) {
	e.post(e.remote(verbs.OpWrite, peer, 8))
	require.Empty(e.t, e.pollN(10), "the first WRITE needs the responder")
	require.Equal(e.t, verbs.StatusSuccess, e.wait(1, peer)[0].Status)
}

// reset moves the queue pair of an end to RESET.
func (e *end) reset() {
	require.NoError(e.t, e.qp.Modify(&verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState))
}

// exchange sends a message from one end to another one, and requires that both ends have
// a completion with success.
func (e *end) exchange(peer *end) {
	e.t.Helper()
	peer.recv(500, 0, 10)
	e.post(verbs.SendWR{ID: 501, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	received := peer.wait(1, e)[0]
	sent := e.wait(1, peer)[0]
	require.Equal(e.t, []verbs.Status{verbs.StatusSuccess, verbs.StatusSuccess}, []verbs.Status{received.Status, sent.Status})
	require.Equal(e.t, []uint64{500, 501}, []uint64{received.ID, sent.ID})
}

// more returns n ends that share everything but the queue pair with e. The parameter s is
// nil or a shared receive queue.
func (e *end) more(n int, s verbs.SRQ) (ends []*end) {
	for range n {
		other := *e
		q, err := e.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: e.cq, RecvCQ: e.cq, SRQ: s,
			Caps: verbs.QPCaps{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1}})
		require.NoError(e.t, err)
		e.t.Cleanup(func() { require.NoError(e.t, q.Close()) })
		other.qp = q.(*qp)
		ends = append(ends, &other)
	}
	return ends
}

// send posts a message of n bytes.
func (e *end) send(id uint64, n int) {
	e.post(verbs.SendWR{ID: id, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(e.mr, 0, n)}})
}

// datagramQKey is the Q_Key of the queue pairs of becomeUD. Arbitrary.
const datagramQKey = 0x11111111

// becomeUD replaces an end's queue pair by a UD queue pair in RTS. The parameter places is
// the depth of both queues.
func (e *end) becomeUD(places int) {
	require.NoError(e.t, e.qp.Close())
	q, err := e.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeUD, SendCQ: e.cq, RecvCQ: e.cq,
		Caps: verbs.QPCaps{MaxSendWR: places, MaxRecvWR: places, MaxSendSGE: 2, MaxRecvSGE: 2}})
	require.NoError(e.t, err)
	e.qp = q.(*qp)
	attr := verbs.QPAttr{Port: 1, QKey: datagramQKey, SQPSN: 0xffffff}
	for _, step := range []struct {
		state verbs.QPState
		mask  verbs.QPAttrMask
	}{{verbs.StateInit, verbs.AttrPort | verbs.AttrQKey}, {verbs.StateRTR, 0}, {verbs.StateRTS, verbs.AttrSQPSN}} {
		attr.State = step.state
		require.NoError(e.t, q.Modify(&attr, step.mask|verbs.AttrState))
	}
}
