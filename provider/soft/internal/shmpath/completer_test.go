//go:build linux

package shmpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestRNRRetriesAreCountedAndTimed(t *testing.T) {
	const retries, code = 3, 20 // The RNR timer code 20 means 10.24 ms (IBTA vol. 1, 9.7.5.2.8).
	d := newMemoryDevice(t, memoryConfig{})
	a, b := qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewEnd(t, d, 1, verbs.ProgressManual)
	a.Connect(b, func(attr *verbs.QPAttr) { attr.RNRRetry = retries })
	b.Connect(a, func(attr *verbs.QPAttr) { attr.MinRNRTimer = code })
	advance := a.StopClock()
	a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend})
	a.Post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend})
	naks := func() uint64 { return d.Counted()["send_rnr_err"] }
	for attempt := range uint64(retries) {
		b.PollForTimers()
		require.Equal(t, attempt+1, naks())
		require.Empty(t, a.PollForTimers())
		advance(verbs.RNRDelay(code) - 1)
		a.PollForTimers()
		b.PollForTimers()
		require.Equal(t, attempt+1, naks(), "the message was sent again before the RNR timer fired")
		advance(1)
		require.Empty(t, a.PollForTimers())
	}
	b.PollForTimers()
	require.EqualValues(t, retries+1, naks())
	got := a.PollForTimers()
	require.Len(t, got, 2)
	require.Equal(t, verbs.StatusRNRRetryExcErr, got[0].Status)
	require.Equal(t, verbs.StatusWRFlushErr, got[1].Status)

	b.Recv(9, 0, 100)
	require.Empty(t, b.PollForTimers(), "a failed message is not delivered later")
}

func TestRNRCountStartsAnewWithProgress(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewEnd(t, d, 1, verbs.ProgressManual)
	a.Connect(b, func(attr *verbs.QPAttr) { attr.RNRRetry = 1 })
	b.Connect(a, nil)
	advance := a.StopClock()
	for id := range uint64(4) {
		a.Post(verbs.SendWR{ID: id, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
		b.PollForTimers()
		require.Empty(t, a.PollForTimers())
		b.Recv(id, 0, 100)
		advance(verbs.RNRDelay(1))
		a.PollForTimers()
		require.Equal(t, id, b.Wait(1, a)[0].ID)
		require.Equal(t, verbs.StatusSuccess, a.Wait(1, b)[0].Status)
	}
}

func TestUnresponsivePeerEndsRetries(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewEnd(t, d, 1, verbs.ProgressManual)
	a.Connect(b, func(attr *verbs.QPAttr) { attr.Timeout, attr.RetryCount = answerTimeout, answerRetries })
	b.Connect(a, nil)
	wait := waiterFor(a)
	require.NoError(t, b.QP.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	a.Recv(5, 0, 10)
	a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend})
	require.Empty(t, a.PollForTimers())
	require.Empty(t, wait(answerLimit-answerStep))
	got := wait(2 * answerStep)
	require.Len(t, got, 2)
	require.Equal(t, verbs.StatusRetryExcErr, got[0].Status)
	require.Equal(t, verbs.StatusWRFlushErr, got[1].Status)
}

func TestPeerGoneFlushesInOrder(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := qptest.NewPair(t, d, verbs.ProgressManual)
	b.Recv(1, 0, 10)
	b.Post(verbs.SendWR{ID: 10, Opcode: verbs.OpSend})
	a.Recv(20, 0, 10)
	a.Recv(21, 0, 10)
	for id := range uint64(3) {
		a.Post(verbs.SendWR{ID: id, Opcode: verbs.OpSend})
	}
	connOf(a).PeerGone()
	got := a.PollForTimers()
	var ids []uint64
	var statuses []verbs.Status
	for _, wc := range got {
		ids = append(ids, wc.ID)
		statuses = append(statuses, wc.Status)
	}
	require.Equal(t, []uint64{20, 0, 1, 2, 21}, ids, "the message that the peer had sent is delivered")
	require.Equal(t, []verbs.Status{verbs.StatusSuccess, verbs.StatusRetryExcErr, verbs.StatusWRFlushErr, verbs.StatusWRFlushErr, verbs.StatusWRFlushErr}, statuses)
}

// Requests that were acknowledged before the error state complete with success.
func TestAnsweredRequestsAreNotFlushed(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := qptest.NewPair(t, d, verbs.ProgressManual)
	b.Recv(1, 0, 10)
	for id := range uint64(2) {
		a.Post(verbs.SendWR{ID: id, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	}
	b.Wait(1)
	b.PollForTimers()
	require.NoError(t, a.QP.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	got := a.PollForTimers()
	require.Len(t, got, 2)
	require.Equal(t, verbs.StatusSuccess, got[0].Status)
	require.NotEqual(t, verbs.StatusSuccess, got[1].Status)
}

func modifyToSQD(t *testing.T, e *qptest.End) {
	require.NoError(t, e.QP.Modify(&verbs.QPAttr{State: verbs.StateSQD}, verbs.AttrState))
}

func requireDrained(t *testing.T, e *qptest.End) {
	require.Equal(t, verbs.StateSQD, e.QP.State())
	require.False(t, e.QP.Drains())
}

// A queue pair in SQD continues the requests that it has begun, even one that waits for
// an RNR retry.
func TestRNRInSQD(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := qptest.NewPair(t, d, verbs.ProgressManual)
	advance := a.StopClock()
	a.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	b.PollForTimers()
	require.Empty(t, a.PollForTimers())
	require.True(t, a.QP.AwaitsRNRTimer())
	modifyToSQD(t, a)
	b.Recv(1, 0, 64)
	advance(verbs.RNRDelay(1))
	a.PollForTimers()
	b.Wait(1)
	require.Equal(t, verbs.StatusSuccess, a.Wait(1, b)[0].Status)
	requireDrained(t, a)
}

// A shard does not poll a parked connection. When its queue pair goes to SQD, the shard
// polls the connection again. Otherwise the send queue would never drain.
func TestParkedConnDrains(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := qptest.NewPair(t, d, verbs.ProgressManual)
	b.Recv(1, 0, 64)
	a.Post(verbs.SendWR{Opcode: verbs.OpSend})
	l := connOf(a).p
	require.True(t, l.Arm())
	a.QP.Shard.Polls.Remove(&l.schedule)
	modifyToSQD(t, a)
	b.Wait(1)
	b.PollForTimers()
	a.PollForTimers()
	requireDrained(t, a)
}
