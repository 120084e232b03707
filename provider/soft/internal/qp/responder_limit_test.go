//go:build linux

package qp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newHalfSenders returns sharedBuffers queue pairs with a shared receive queue. The test
// plays their peers. The function source returns the source of each peer.
func newHalfSenders(t *testing.T, source func(i int) access.Source) (queue *srq, victims []*fakeEnd, peers []*fakePath, now *time.Duration) {
	h := newFakeHost(t, 1)
	queue, victims = newSharedEnds(newFakeEnd(t, h, nil), sharedBuffers)
	for i, victim := range victims {
		peer := victim.connect()
		peer.source = source(i)
		peers = append(peers, peer)
	}
	return queue, victims, peers, &h.now
}

// oneSource is the source of all peers in a test.
func oneSource(int) access.Source { return access.LocalSource(77, 0) }

// whole has the flags of a message of one fragment.
const whole = fragment.First | fragment.Last

// sendHalf sends the first byte of a message.
func sendHalf(p *fakePath) { p.arrive(fragment.First, 1) }

// Many connections of one source send only the first byte of a message. Their messages
// hold the share of the source, and the others get an RNR NAK. A message of one fragment
// is never refused. When the messages have stalled, each further refusal ends one
// connection, and no other one ends.
func TestHalfSentMessagesHoldAShare(t *testing.T) {
	const share = sharedBuffers / partialShares
	queue, victims, attackers, now := newHalfSenders(t, oneSource)
	cq, shard := victims[0], victims[0].qp.Shard
	for _, attacker := range attackers {
		sendHalf(attacker)
	}
	require.Empty(t, cq.poll(sharedBuffers))
	require.Equal(t, sharedBuffers-share, queue.rq.len())
	require.EqualValues(t, sharedBuffers-share, shard.Counts.Load(counters.PartialRefused))
	attackers[share].arrive(whole, 1)
	require.Len(t, cq.poll(sharedBuffers), 1, "a whole message has a buffer")
	queue.fill(t, cq.mr)

	limit := victims[0].qp.partialLimit()
	attr := &victims[0].qp.attr
	require.Greater(t, limit, verbs.AckTimeout(attr.Timeout)*time.Duration(attr.RetryCount+1))
	*now += time.Hour
	shard.FireTimers()
	require.Empty(t, cq.poll(sharedBuffers), "nothing is refused, so nobody waits for the buffers")
	require.Len(t, queue.partial.stalled, share)

	for i := range share {
		other := attackers[share+1+i]
		sendHalf(other)
		got := cq.poll(sharedBuffers)
		require.Len(t, got, 1, "one message gives its buffer back")
		require.Equal(t, verbs.StatusRespTimeoutErr, got[0].Status)
		require.EqualValues(t, 7, got[0].ID)
		require.Len(t, queue.partial.stalled, share-1-i)
		sendHalf(other)
		require.Empty(t, cq.poll(sharedBuffers), "now the message has a buffer")
		require.Equal(t, share, queue.partial.held)
	}
	require.EqualValues(t, share, shard.Counts.Load(counters.PartialExpired))
	for _, victim := range victims[2*share+1:] {
		require.Equal(t, verbs.StateRTS, victim.qp.State(), "no other connection ends")
	}
}

// Many sources take all buffers with half-sent messages. A message that finds no buffer
// ends the connection of the message that has stalled longest, of whatever source.
func TestNoBufferEndsAStalledMessage(t *testing.T) {
	queue, victims, attackers, now := newHalfSenders(t, func(i int) access.Source { return access.LocalSource(uint32(100+i), 0) })
	cq := victims[0]
	for _, attacker := range attackers[:sharedBuffers-1] {
		sendHalf(attacker)
	}
	cq.poll(sharedBuffers)
	require.Equal(t, 1, queue.rq.len())
	honest := attackers[sharedBuffers-1]
	honest.arrive(whole, 1)
	require.Len(t, cq.poll(sharedBuffers), 1)
	*now += maxPartialLimit - 1
	honest.arrive(whole, 1)
	require.Empty(t, cq.poll(sharedBuffers), "the messages have not stalled yet, so this one is refused")
	*now++
	queue.shard.FireTimers()
	require.Len(t, queue.partial.stalled, sharedBuffers-1, "messages of another connection are no progress")
	first := queue.partial.stalled[0]
	honest.arrive(whole, 1)
	got := cq.poll(sharedBuffers)
	require.Len(t, got, 1)
	require.Equal(t, verbs.StatusRespTimeoutErr, got[0].Status)
	require.Equal(t, verbs.StateError, first.state)
	queue.fill(t, cq.mr)
	honest.arrive(whole, 1)
	got = cq.poll(sharedBuffers)
	require.Len(t, got, 1)
	require.Equal(t, verbs.StatusSuccess, got[0].Status)
}

// A slow message completes if partialProgress bytes of it arrive in each time limit, also
// if others wait for its buffer. Bytes that were not delivered yet count too.
func TestSlowMessagesComplete(t *testing.T) {
	queue, victims, senders, now := newHalfSenders(t, oneSource)
	victim, sender, other := victims[0], senders[0], senders[1]
	for queue.rq.pop(new(rqe)) { // This leaves one buffer, which is large.
	}
	queue.rq.held = 0
	_, err := queue.PostRecv([]verbs.RecvWR{{ID: 1, SGEs: []verbs.SGE{verbs.SGEOf(victim.mr, 0, fakeEndSize)}}})
	require.NoError(t, err)
	sender.arrive(fragment.First, partialProgress)
	other.arrive(whole, 1)
	require.Empty(t, victim.poll(sharedBuffers))
	for range 20 {
		*now += victim.qp.partialLimit()
		sender.arrive(0, partialProgress)
		// The timer has expired, and a fragment was not delivered yet. The shard processes
		// the timer first.
		queue.shard.FireTimers()
		require.Empty(t, queue.partial.stalled)
		other.arrive(whole, 1)
		require.Empty(t, victim.poll(sharedBuffers))
	}
	*now += victim.qp.partialLimit() / 2
	sender.arrive(fragment.Last, 1)
	got := victim.poll(sharedBuffers)
	require.Len(t, got, 1)
	require.Equal(t, verbs.StatusSuccess, got[0].Status)
	require.EqualValues(t, 21*partialProgress+1, got[0].ByteLen)

	*now += time.Hour
	queue.shard.FireTimers()
	require.Equal(t, verbs.StateRTS, victim.qp.State())
	require.False(t, victim.qp.partial.timer.Running(), "there is no incomplete message")
	require.Zero(t, queue.partial.held)
}

// A message of which fewer than partialProgress bytes arrive within the time limit has
// stalled, until its next fragment arrives.
func TestTricklingMessagesStall(t *testing.T) {
	queue, victims, senders, now := newHalfSenders(t, oneSource)
	victim, sender := victims[0], senders[0]
	sendHalf(sender)
	victim.poll(sharedBuffers)
	for range 4 {
		for range 4 {
			require.Empty(t, queue.partial.stalled)
			*now += victim.qp.partialLimit()/4 + 1
			sender.arrive(0, 1)
			victim.poll(sharedBuffers)
			queue.shard.FireTimers()
		}
		require.Equal(t, []*QP{victim.qp}, queue.partial.stalled)
		sender.arrive(0, 1)
		victim.poll(sharedBuffers)
	}
	*now += victim.qp.partialLimit()
	queue.shard.FireTimers()
	sender.arrive(fragment.Last, 1)
	require.Len(t, victim.poll(sharedBuffers), 1, "a stalled message can complete")
	require.Empty(t, queue.partial.stalled)
	require.Zero(t, queue.partial.held)
}

// A queue pair that is reset or closed gives back its share.
func TestResetEndsTheShare(t *testing.T) {
	queue, victims, attackers, now := newHalfSenders(t, oneSource)
	for i := range 3 {
		sendHalf(attackers[i])
	}
	victims[0].poll(sharedBuffers)
	require.Equal(t, 3, queue.partial.shares[oneSource(0)].refs)
	*now += maxPartialLimit
	queue.shard.FireTimers()
	require.Len(t, queue.partial.stalled, 3)
	require.NoError(t, victims[0].qp.Modify(&verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState))
	require.NoError(t, victims[1].qp.Close())
	require.NoError(t, victims[2].qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	require.Zero(t, queue.partial.held)
	require.Empty(t, queue.partial.stalled)
	require.Equal(t, 1, queue.partial.shares[oneSource(0)].refs, "a queue pair in the error state keeps its path")
	require.NoError(t, victims[2].qp.Close())
	require.Empty(t, queue.partial.shares)
}

// Each refusal in a row makes the time in the RNR NAK about four times as long.
func TestRNRTimerOfRefusals(t *testing.T) {
	q := &QP{}
	q.attr.MinRNRTimer = 12
	var times []time.Duration
	for range maxRefusals {
		times = append(times, verbs.RNRDelay(q.RNRTimer()))
		q.partial.refusals++
	}
	const µs = time.Microsecond
	require.Equal(t, []time.Duration{640 * µs, 2560 * µs, 10240 * µs, 40960 * µs, 163840 * µs, 655360 * µs, 655360 * µs, 655360 * µs}, times)
	for code := range uint8(verbs.MaxTimerCode + 1) {
		for refusals := range uint8(maxRefusals + 1) {
			q.attr.MinRNRTimer, q.partial.refusals = code, refusals
			require.LessOrEqual(t, q.RNRTimer(), uint8(verbs.MaxTimerCode))
			require.GreaterOrEqual(t, verbs.RNRDelay(q.RNRTimer()), verbs.RNRDelay(code))
		}
	}
}

// Each refusal in a row of a paused queue pair makes the time in the RNR NAK about twice as
// long, up to 10.24 ms.
func TestRNRTimerOfPause(t *testing.T) {
	q := &QP{}
	q.attr.MinRNRTimer = 12
	q.mode = verbs.RecvPaused
	var times []time.Duration
	for range 6 {
		require.False(t, q.popReceive(&q.buffer))
		times = append(times, verbs.RNRDelay(q.RNRTimer()))
	}
	const µs = time.Microsecond
	require.Equal(t, []time.Duration{640 * µs, 1280 * µs, 2560 * µs, 5120 * µs, 10240 * µs, 10240 * µs}, times)
	for code := range uint8(verbs.MaxTimerCode + 1) {
		for q.refusals = range uint8(verbs.MaxTimerCode + 1) {
			q.attr.MinRNRTimer = code
			require.LessOrEqual(t, q.RNRTimer(), uint8(verbs.MaxTimerCode))
			require.GreaterOrEqual(t, verbs.RNRDelay(q.RNRTimer()), verbs.RNRDelay(code))
		}
	}
}

// The time limit for incomplete messages is longer than all retries of a sender take, but
// never longer than maxPartialLimit, whatever the sender has chosen.
func TestPartialLimit(t *testing.T) {
	q := &QP{}
	for timeout := range uint8(32) {
		for retries := range uint8(8) {
			q.attr.Timeout, q.attr.RetryCount = timeout, retries
			limit := q.partialLimit()
			require.GreaterOrEqual(t, limit, minPartialLimit)
			require.LessOrEqual(t, limit, 20*time.Second)
			// 19 is the ACK timeout that the connection manager of Linux sets.
			if timeout > 0 && timeout <= 19 {
				require.Greater(t, limit, verbs.AckTimeout(timeout)*time.Duration(retries+1))
			}
		}
	}
}

// A message has stalled if fewer than partialProgress bytes of it have arrived since the
// call of watch().
func TestPartialMessageStalls(t *testing.T) {
	var p partialMessage
	p.timer.Init(stillShard(), timerheap.Func(func() {}))
	p.messages++
	p.watch(100, time.Second)
	require.Equal(t, time.Second, p.timer.When())
	require.True(t, p.stalls(p.started, 100+partialProgress-1))
	require.False(t, p.stalls(p.started, 100+partialProgress))
	p.messages++
	require.False(t, p.stalls(p.started, 100), "this is another message")
	p.watch(0, time.Second)
	require.True(t, p.stalls(p.started, 0))
}
