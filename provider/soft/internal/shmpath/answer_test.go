//go:build linux

package shmpath

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Attributes of the queue pairs in these tests: three attempts of 4.2 ms.
const (
	answerTimeout = 10
	answerRetries = 2
)

var (
	answerStep  = verbs.AckTimeout(answerTimeout) / answerChecks
	answerLimit = (answerRetries + 1) * verbs.AckTimeout(answerTimeout)
)

// newAnswerPair makes a connected pair on the local path. The first result waits: it
// moves the clock of a forward in steps, polls a after each step, and returns the
// completions.
func newAnswerPair(t *testing.T, cfg memoryConfig) (wait func(time.Duration) []verbs.WC, a, b *qptest.End) {
	d := newMemoryDevice(t, cfg)
	a, b = qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewEnd(t, d, 1, verbs.ProgressManual)
	short := func(attr *verbs.QPAttr) { attr.Timeout, attr.RetryCount = answerTimeout, answerRetries }
	a.Connect(b, short)
	b.Connect(a, nil)
	qptest.BecomeReady(a, b)
	b.PollForTimers()
	a.PollForTimers() // takes the acknowledgement of the notices, which would count as progress
	return waiterFor(a), a, b
}

// waiterFor stops the clock of an end. The result is as the first one of newAnswerPair.
func waiterFor(e *qptest.End) func(time.Duration) []verbs.WC {
	advance := e.StopClock()
	return func(d time.Duration) (got []verbs.WC) {
		for ; d > 0; d -= answerStep {
			advance(min(d, answerStep))
			got = append(got, e.PollForTimers()...)
		}
		return got
	}
}

func statusesOf(wcs []verbs.WC) (all []verbs.Status) {
	for _, wc := range wcs {
		all = append(all, wc.Status)
	}
	return all
}

func TestSilentPeerEndsConnection(t *testing.T) {
	for name, wr := range map[string]verbs.SendWR{
		"send":   {Opcode: verbs.OpSend},
		"write":  {Opcode: verbs.OpWrite},
		"read":   {Opcode: verbs.OpRead},
		"atomic": {Opcode: verbs.OpFetchAdd},
	} {
		t.Run(name, func(t *testing.T) {
			wait, a, b := newAnswerPair(t, memoryConfig{})
			wr.SGEs, wr.RemoteAddr, wr.RKey = []verbs.SGE{verbs.SGEOf(a.MR, 0, 8)}, b.MR.Addr(), b.MR.RKey()
			a.Post(wr)
			a.Post(verbs.SendWR{Opcode: verbs.OpWrite})
			require.Empty(t, wait(answerLimit-answerStep))
			require.Equal(t, []verbs.Status{verbs.StatusRetryExcErr, verbs.StatusWRFlushErr}, statusesOf(wait(answerStep)))
			require.Equal(t, verbs.StateError, a.QP.State())
		})
	}
}

// The first message of a turn goes into the ring at once. The timer begins with the
// doorbell.
func TestSilentPeerAfterSendInline(t *testing.T) {
	wait, a, _ := newAnswerPair(t, memoryConfig{})
	require.True(t, a.QP.SendInline(1, 0, []byte("x")))
	a.QP.Doorbell()
	require.Equal(t, []verbs.Status{verbs.StatusRetryExcErr}, statusesOf(wait(answerLimit)))
}

// A peer that acknowledges a READ and keeps the response back is silent.
func TestPeerKeepsResponseBack(t *testing.T) {
	wait, a, b := newAnswerPair(t, memoryConfig{})
	p := connOf(b).p
	a.Post(verbs.SendWR{Opcode: verbs.OpRead, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 8)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()})
	for range answerRetries {
		a.Post(verbs.SendWR{Opcode: verbs.OpWrite})
		acknowledgeUnexecuted(t, p)
		require.Empty(t, wait(verbs.AckTimeout(answerTimeout)), "acknowledgements of later requests are no progress")
	}
	got := wait(2 * verbs.AckTimeout(answerTimeout))
	require.Equal(t, verbs.StatusRetryExcErr, got[0].Status)
}

// acknowledgeUnexecuted consumes all slots and acknowledges them as executed.
func acknowledgeUnexecuted(t *testing.T, p *peer) {
	var s shm.Slot
	for filled, ok := p.in.Peek(&s); filled; filled, ok = p.in.Peek(&s) {
		require.True(t, ok)
		p.in.Advance(&s)
	}
	p.own.Ack.Store(uint64(shm.NewAck(p.in.Head, p.in.Head)))
}

// A peer whose loop runs and that has no receive buffer is not silent.
func TestPeerWithoutBuffersIsNotSilent(t *testing.T) {
	wait, a, b := newAnswerPair(t, memoryConfig{})
	a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	for range 3 * answerChecks * (answerRetries + 1) {
		b.PollForTimers()
		require.Empty(t, wait(answerStep))
	}
	b.Recv(1, 0, 64)
	wait(answerStep)
	b.Wait(1, a)
	require.Equal(t, verbs.StatusSuccess, a.Wait(1, b)[0].Status)
}

// A peer may ask for a longer pause after an RNR NAK than the time of all retries.
func TestRNRTimerBeyondLimit(t *testing.T) {
	const code = 29 // 245.76 ms
	a, b := newEndsOnLocalPath(t)
	a.Connect(b, func(attr *verbs.QPAttr) { attr.Timeout, attr.RetryCount = answerTimeout, answerRetries })
	b.Connect(a, func(attr *verbs.QPAttr) { attr.MinRNRTimer = code })
	qptest.BecomeReady(a, b)
	wait := waiterFor(a)
	a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	b.PollForTimers()
	b.Recv(1, 0, 64)
	require.Empty(t, a.PollForTimers())
	require.Empty(t, wait(verbs.RNRDelay(code)))
	b.Wait(1, a)
	require.Equal(t, verbs.StatusSuccess, a.Wait(1, b)[0].Status)
}

// A stop that is shorter than the limit costs nothing, however often it happens, and
// however long a request is.
func TestShortStopsCostNothing(t *testing.T) {
	const size = qptest.EndSize
	for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpWrite, verbs.OpRead} {
		wait, a, b := newAnswerPair(t, memoryConfig{bytes: 64 << 10, private: true})
		b.Recv(1, 0, size)
		a.Post(verbs.SendWR{ID: 1, Opcode: op, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, size)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()})
		stops := 0
		var got []verbs.WC
		for ; len(got) == 0; stops++ {
			require.Less(t, stops, 1000)
			b.PollN(1)
			got = wait(answerLimit - answerStep)
		}
		require.Equal(t, []verbs.Status{verbs.StatusSuccess}, statusesOf(got), op)
		require.Greater(t, stops, 10)
	}
}

// The queue pair of the peer may become ready late. Then the wait begins again.
func TestLateReadyIsProgress(t *testing.T) {
	a, b := newEndsOnLocalPath(t)
	a.Connect(b, func(attr *verbs.QPAttr) { attr.Timeout, attr.RetryCount = answerTimeout, answerRetries })
	wait := waiterFor(a)
	a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled})
	require.Empty(t, wait(answerLimit-answerStep))
	b.Connect(a, nil)
	require.Empty(t, wait(answerLimit-answerStep))
	require.Equal(t, verbs.StatusSuccess, a.Wait(1, b)[0].Status)
}

// If both processes were stopped, the peer has as much time as otherwise.
func TestStopOfBothSidesCostsNothing(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	advance := a.StopClock()
	b.Recv(1, 0, 64)
	a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	for range answerChecks {
		advance(time.Hour)
		require.Empty(t, a.PollForTimers())
	}
	b.Wait(1)
	require.Equal(t, verbs.StatusSuccess, a.Wait(1, b)[0].Status)
}

// If the ring is full of requests of others, a connection can send nothing to a silent
// peer. It fails all the same, with an error for its own request.
func TestSilentPeerWithFullRing(t *testing.T) {
	const slots = 8
	wait, x, y := newAnswerPair(t, memoryConfig{slots: slots})
	a, _ := newNeighbors(t, x, y)
	y.PollForTimers()
	x.PollForTimers()
	for range slots {
		a.Post(verbs.SendWR{Opcode: verbs.OpWrite})
	}
	x.Post(verbs.SendWR{ID: 7, Opcode: verbs.OpWrite})
	require.False(t, x.QP.Outstanding())
	require.Empty(t, wait(answerLimit-answerStep))
	got := wait(answerStep)
	require.Equal(t, []verbs.Status{verbs.StatusRetryExcErr}, statusesOf(got))
	require.EqualValues(t, 7, got[0].ID)
}

func TestInfiniteAckTimeoutOnLocalPath(t *testing.T) {
	a, b := newEndsOnLocalPath(t)
	a.Connect(b, func(attr *verbs.QPAttr) { attr.Timeout = 0 })
	b.Connect(a, nil)
	qptest.BecomeReady(a, b)
	wait := waiterFor(a)
	a.Post(verbs.SendWR{Opcode: verbs.OpWrite})
	require.Empty(t, wait(100*answerLimit))
	require.Zero(t, a.QP.Shard.Timers.Len())
}

func newEndsOnLocalPath(t *testing.T) (a, b *qptest.End) {
	d := newMemoryDevice(t, memoryConfig{})
	return qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewEnd(t, d, 1, verbs.ProgressManual)
}

// When everything is answered, the next check is the last one. So an idle loop sleeps.
func TestAnswerTimerStops(t *testing.T) {
	wait, a, b := newAnswerPair(t, memoryConfig{})
	a.Post(verbs.SendWR{Opcode: verbs.OpWrite})
	require.Equal(t, 1, a.QP.Shard.Timers.Len())
	b.PollForTimers()
	require.Empty(t, wait(answerStep))
	require.Zero(t, a.QP.Shard.Timers.Len())
	require.Equal(t, verbs.StateRTS, a.QP.State())
}
