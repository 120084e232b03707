//go:build linux

package qptest

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An End is a queue pair with its PD, CQ and memory region. Tests connect ends without
// connection management.
type End struct {
	T  testing.TB
	PD verbs.PD
	CQ verbs.CQ
	QP *qp.QP
	MR verbs.MR
	WC []verbs.WC

	Inline []verbs.InlineData // inline message of each completion in WC; see CQAttr.Inline
}

// EndSize is the size of an end's memory region in bytes.
const EndSize = 1 << 21

// NewEnd makes an end on a completion vector.
func NewEnd(t testing.TB, d verbs.Device, vector int, progress verbs.Progress) *End {
	return NewEndOn(t, d, &verbs.CQAttr{Depth: 1024, Vector: vector, Progress: progress, Inline: make([]verbs.InlineData, 64)})
}

// NewEndOn makes an end whose CQ has the given attributes.
func NewEndOn(t testing.TB, d verbs.Device, attr *verbs.CQAttr) *End {
	e := &End{T: t, WC: make([]verbs.WC, 64), Inline: attr.Inline}
	var err error
	e.PD, err = d.AllocPD()
	require.NoError(t, err)
	e.CQ, err = d.CreateCQ(attr)
	require.NoError(t, err)
	e.MR, err = e.PD.Alloc(&verbs.AllocAttr{Size: EndSize, Access: verbs.AccessAll})
	require.NoError(t, err)
	q, err := e.PD.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: e.CQ, RecvCQ: e.CQ,
		Caps: verbs.QPCaps{MaxSendWR: 128, MaxRecvWR: 128, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 128}})
	require.NoError(t, err)
	e.QP = q.(*qp.QP)
	t.Cleanup(e.Close)
	return e
}

// Close closes the queue pair, and what it uses.
func (e *End) Close() {
	for _, c := range []interface{ Close() error }{e.QP, e.MR, e.CQ, e.PD} {
		require.NoError(e.T, c.Close())
	}
}

// Connect connects e to peer, and moves e's queue pair to RTS. If the parameter change is
// not nil, this function modifies the attributes first.
func (e *End) Connect(peer *End, change func(*verbs.QPAttr)) {
	attr := verbs.QPAttr{
		Port: 1, Access: verbs.AccessAll, DestQPN: peer.QP.Num(), PathMTU: verbs.MTU4096,
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
		require.NoError(e.T, e.QP.Modify(&attr, step.mask|verbs.AttrState))
	}
}

// NewPair makes two ends connected on the local path. They use the completion vectors 0
// and 1, if there are two.
func NewPair(t testing.TB, d verbs.Device, progress verbs.Progress) (a, b *End) {
	a, b = NewEnd(t, d, 0, progress), NewEnd(t, d, 1, progress)
	a.Connect(b, nil)
	b.Connect(a, nil)
	BecomeReady(a, b)
	return a, b
}

// BecomeReady lets two connected queue pairs tell each other that they are ready.
func BecomeReady(a, b *End) {
	for _, e := range []*End{a, b, a} {
		e.PollN(1)
	}
}

// Recv posts a receive buffer in the region.
func (e *End) Recv(id uint64, offset, length int) {
	_, err := e.QP.PostRecv([]verbs.RecvWR{{ID: id, SGEs: []verbs.SGE{verbs.SGEOf(e.MR, offset, length)}}})
	require.NoError(e.T, err)
}

// Post posts a request.
func (e *End) Post(wr verbs.SendWR) {
	_, err := e.QP.PostSend([]verbs.SendWR{wr})
	require.NoError(e.T, err)
}

// PollLimit is the number of polls after which a test fails. Arbitrary.
const PollLimit = 10_000_000

// Wait polls an end until it has returned n completions. It also polls the other ends.
func (e *End) Wait(n int, others ...*End) []verbs.WC {
	e.T.Helper()
	var got []verbs.WC
	for range PollLimit {
		k, err := e.CQ.Poll(e.WC[:min(len(e.WC), n-len(got))])
		require.NoError(e.T, err)
		got = append(got, e.WC[:k]...)
		if len(got) == n {
			return got
		}
		for _, o := range others {
			_, err := o.CQ.Poll(nil)
			require.NoError(o.T, err)
		}
	}
	require.FailNow(e.T, "completions have not arrived", "%d of %d", len(got), n)
	return nil
}

// PollN polls an end n times, and returns the completions.
func (e *End) PollN(drives int) []verbs.WC {
	var got []verbs.WC
	for range drives {
		n, err := e.CQ.Poll(e.WC)
		require.NoError(e.T, err)
		got = append(got, e.WC[:n]...)
	}
	return got
}

// DrainCQ polls an end until its CQ is empty. It returns the completions.
func (e *End) DrainCQ() []verbs.WC {
	e.T.Helper()
	var got []verbs.WC
	for {
		n, err := e.CQ.Poll(e.WC)
		require.NoError(e.T, err)
		if got = append(got, e.WC[:n]...); n < len(e.WC) {
			return got
		}
	}
}

// StopClock stops an end's clock, and returns a function that advances it.
func (e *End) StopClock() (advance func(time.Duration)) {
	now := e.QP.Shard.Clock()
	e.QP.Shard.Clock = func() time.Duration { return now }
	return func(d time.Duration) { now += d }
}

// PollForTimers polls an end until its shard has surely examined the timers. It returns
// the completions.
func (e *End) PollForTimers() []verbs.WC { return e.PollN(2 * qp.AckEvery) }

// RecvInline sets the mode RecvInline.
func (e *End) RecvInline() {
	e.T.Helper()
	require.NoError(e.T, e.QP.SetRecvMode(verbs.RecvInline))
}

// WaitInline does what Wait does. The result data has the bytes of each inline message, and
// nil for each other completion.
func (e *End) WaitInline(n int, others ...*End) (wcs []verbs.WC, data [][]byte) {
	e.T.Helper()
	for range PollLimit {
		k, err := e.CQ.Poll(e.WC[:min(len(e.WC), n-len(wcs))])
		require.NoError(e.T, err)
		for i, wc := range e.WC[:k] {
			wcs = append(wcs, wc)
			if wc.Flags&verbs.WCInline == 0 {
				data = append(data, nil)
			} else {
				data = append(data, bytes.Clone(e.Inline[i][:wc.ByteLen]))
			}
		}
		if len(wcs) == n {
			return wcs, data
		}
		for _, o := range others {
			_, err := o.CQ.Poll(nil)
			require.NoError(o.T, err)
		}
	}
	require.FailNow(e.T, "completions have not arrived", "%d of %d", len(wcs), n)
	return nil, nil
}

// Remote returns a request of e with the given length for the memory of peer.
func (e *End) Remote(op verbs.Opcode, peer *End, length int) verbs.SendWR {
	return verbs.SendWR{ID: 7, Opcode: op, Flags: verbs.SendSignaled,
		SGEs: []verbs.SGE{verbs.SGEOf(e.MR, 0, length)}, RemoteAddr: peer.MR.Addr(), RKey: peer.MR.RKey()}
}

// RequireSent requires that a request does not complete until the peer is polled. The
// completion must have the given status.
func (e *End) RequireSent(peer *End, wr verbs.SendWR, want verbs.Status) {
	e.T.Helper()
	e.Post(wr)
	require.Empty(e.T, e.PollN(100))
	require.Equal(e.T, want, e.Wait(1, peer)[0].Status)
}

// WaitStatus returns the status of the next completion, while the peer is polled too.
func (e *End) WaitStatus(peer *End) verbs.Status { return e.Wait(1, peer)[0].Status }

// ReopenMR closes the region, and allocates another one.
func (e *End) ReopenMR() {
	require.NoError(e.T, e.MR.Close())
	var err error
	e.MR, err = e.PD.Alloc(&verbs.AllocAttr{Size: EndSize, Access: verbs.AccessAll})
	require.NoError(e.T, err)
}

// Fail moves the queue pair to the error state.
func (e *End) Fail() {
	require.NoError(e.T, e.QP.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
}

// RequireDirect requires that a request completes while the peer does nothing.
func (e *End) RequireDirect(wr verbs.SendWR) {
	e.T.Helper()
	e.Post(wr)
	got := e.PollN(1)
	require.Len(e.T, got, 1)
	require.Equal(e.T, verbs.StatusSuccess, got[0].Status)
	require.False(e.T, e.QP.Outstanding())
}

// Share lets e map the region of peer, and waits until it has.
func (e *End) Share(peer *End) {
	e.Post(e.Remote(verbs.OpWrite, peer, 8))
	require.Empty(e.T, e.PollN(10), "the first WRITE needs the responder")
	require.Equal(e.T, verbs.StatusSuccess, e.Wait(1, peer)[0].Status)
}

// Reset moves the queue pair of an end to RESET.
func (e *End) Reset() {
	require.NoError(e.T, e.QP.Modify(&verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState))
}

// Exchange sends a message from one end to another one, and requires that both ends have
// a completion with success.
func (e *End) Exchange(peer *End) {
	e.T.Helper()
	peer.Recv(500, 0, 10)
	e.Post(verbs.SendWR{ID: 501, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	received := peer.Wait(1, e)[0]
	sent := e.Wait(1, peer)[0]
	require.Equal(e.T, []verbs.Status{verbs.StatusSuccess, verbs.StatusSuccess}, []verbs.Status{received.Status, sent.Status})
	require.Equal(e.T, []uint64{500, 501}, []uint64{received.ID, sent.ID})
}

// More returns n ends that share everything but the queue pair with e. The parameter s is
// nil or a shared receive queue.
func (e *End) More(n int, s verbs.SRQ) (ends []*End) {
	for range n {
		other := *e
		q, err := e.PD.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: e.CQ, RecvCQ: e.CQ, SRQ: s,
			Caps: verbs.QPCaps{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1}})
		require.NoError(e.T, err)
		e.T.Cleanup(func() { require.NoError(e.T, q.Close()) })
		other.QP = q.(*qp.QP)
		ends = append(ends, &other)
	}
	return ends
}

// Send posts a message of n bytes.
func (e *End) Send(id uint64, n int) {
	e.Post(verbs.SendWR{ID: id, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(e.MR, 0, n)}})
}

// DatagramQKey is the Q_Key of the queue pairs of BecomeUD. Arbitrary.
const DatagramQKey = 0x11111111

// BecomeUD replaces an end's queue pair by a UD queue pair in RTS. The parameter places is
// the depth of both queues.
func (e *End) BecomeUD(places int) {
	require.NoError(e.T, e.QP.Close())
	q, err := e.PD.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeUD, SendCQ: e.CQ, RecvCQ: e.CQ,
		Caps: verbs.QPCaps{MaxSendWR: places, MaxRecvWR: places, MaxSendSGE: 2, MaxRecvSGE: 2}})
	require.NoError(e.T, err)
	e.QP = q.(*qp.QP)
	attr := verbs.QPAttr{Port: 1, QKey: DatagramQKey, SQPSN: 0xffffff}
	for _, step := range []struct {
		state verbs.QPState
		mask  verbs.QPAttrMask
	}{{verbs.StateInit, verbs.AttrPort | verbs.AttrQKey}, {verbs.StateRTR, 0}, {verbs.StateRTS, verbs.AttrSQPSN}} {
		attr.State = step.state
		require.NoError(e.T, q.Modify(&attr, step.mask|verbs.AttrState))
	}
}
