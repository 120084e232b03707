//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestRNRRetriesAreCountedAndTimed(t *testing.T) {
	const retries, code = 3, 20 // The RNR timer code 20 means 10.24 ms (IBTA vol. 1, 9.7.5.2.8).
	d := newMemoryDevice(t, memoryConfig{})
	a, b := newEnd(t, d, 0, verbs.ProgressManual), newEnd(t, d, 1, verbs.ProgressManual)
	a.connect(b, func(attr *verbs.QPAttr) { attr.RNRRetry = retries })
	b.connect(a, func(attr *verbs.QPAttr) { attr.MinRNRTimer = code })
	advance := a.stopClock()
	a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend})
	a.post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend})
	naks := func() uint64 { return d.counted()["send_rnr_err"] }
	for attempt := range uint64(retries) {
		b.pollForTimers()
		require.Equal(t, attempt+1, naks())
		require.Empty(t, a.pollForTimers())
		advance(verbs.RNRDelay(code) - 1)
		a.pollForTimers()
		b.pollForTimers()
		require.Equal(t, attempt+1, naks(), "the message was sent again before the RNR timer fired")
		advance(1)
		require.Empty(t, a.pollForTimers())
	}
	b.pollForTimers()
	require.EqualValues(t, retries+1, naks())
	got := a.pollForTimers()
	require.Len(t, got, 2)
	require.Equal(t, verbs.StatusRNRRetryExcErr, got[0].Status)
	require.Equal(t, verbs.StatusWRFlushErr, got[1].Status)

	b.recv(9, 0, 100)
	require.Empty(t, b.pollForTimers(), "a failed message is not delivered later")
}

func TestRNRCountStartsAnewWithProgress(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := newEnd(t, d, 0, verbs.ProgressManual), newEnd(t, d, 1, verbs.ProgressManual)
	a.connect(b, func(attr *verbs.QPAttr) { attr.RNRRetry = 1 })
	b.connect(a, nil)
	advance := a.stopClock()
	for id := range uint64(4) {
		a.post(verbs.SendWR{ID: id, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
		b.pollForTimers()
		require.Empty(t, a.pollForTimers())
		b.recv(id, 0, 100)
		advance(verbs.RNRDelay(1))
		a.pollForTimers()
		require.Equal(t, id, b.wait(1, a)[0].ID)
		require.Equal(t, verbs.StatusSuccess, a.wait(1, b)[0].Status)
	}
}

func TestUnresponsivePeerEndsRetries(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := newEnd(t, d, 0, verbs.ProgressManual), newEnd(t, d, 1, verbs.ProgressManual)
	a.connect(b, func(attr *verbs.QPAttr) { attr.Timeout, attr.RetryCount = answerTimeout, answerRetries })
	b.connect(a, nil)
	wait := waiterFor(a)
	require.NoError(t, b.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	a.recv(5, 0, 10)
	a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend})
	require.Empty(t, a.pollForTimers())
	require.Empty(t, wait(answerLimit-answerStep))
	got := wait(2 * answerStep)
	require.Len(t, got, 2)
	require.Equal(t, verbs.StatusRetryExcErr, got[0].Status)
	require.Equal(t, verbs.StatusWRFlushErr, got[1].Status)
}

func TestPeerGoneFlushesInOrder(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := newPair(t, d, verbs.ProgressManual)
	b.recv(1, 0, 10)
	b.post(verbs.SendWR{ID: 10, Opcode: verbs.OpSend})
	a.recv(20, 0, 10)
	a.recv(21, 0, 10)
	for id := range uint64(3) {
		a.post(verbs.SendWR{ID: id, Opcode: verbs.OpSend})
	}
	connOf(a).peerGone()
	got := a.pollForTimers()
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
	a, b := newPair(t, d, verbs.ProgressManual)
	b.recv(1, 0, 10)
	for id := range uint64(2) {
		a.post(verbs.SendWR{ID: id, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	}
	b.wait(1)
	b.pollForTimers()
	require.NoError(t, a.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	got := a.pollForTimers()
	require.Len(t, got, 2)
	require.Equal(t, verbs.StatusSuccess, got[0].Status)
	require.NotEqual(t, verbs.StatusSuccess, got[1].Status)
}

func modifyToSQD(t *testing.T, e *end) {
	require.NoError(t, e.qp.Modify(&verbs.QPAttr{State: verbs.StateSQD}, verbs.AttrState))
}

func requireDrained(t *testing.T, e *end) {
	require.Equal(t, verbs.StateSQD, e.qp.State())
	require.False(t, e.qp.drains())
}

// A queue pair in SQD continues the requests that it has begun, even one that waits for
// an RNR retry.
func TestRNRInSQD(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := newPair(t, d, verbs.ProgressManual)
	advance := a.stopClock()
	a.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	b.pollForTimers()
	require.Empty(t, a.pollForTimers())
	require.True(t, a.qp.awaitsRNRTimer())
	modifyToSQD(t, a)
	b.recv(1, 0, 64)
	advance(verbs.RNRDelay(1))
	a.pollForTimers()
	b.wait(1)
	require.Equal(t, verbs.StatusSuccess, a.wait(1, b)[0].Status)
	requireDrained(t, a)
}

// A shard does not poll a parked connection. When its queue pair goes to SQD, the shard
// polls the connection again. Otherwise the send queue would never drain.
func TestParkedConnDrains(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := newPair(t, d, verbs.ProgressManual)
	b.recv(1, 0, 64)
	a.post(verbs.SendWR{Opcode: verbs.OpSend})
	l := connOf(a).p
	require.True(t, l.arm())
	a.qp.shard.polls.remove(&l.schedule)
	modifyToSQD(t, a)
	b.wait(1)
	b.pollForTimers()
	a.pollForTimers()
	requireDrained(t, a)
}
