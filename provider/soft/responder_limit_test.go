//go:build linux

package soft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newHalfSenders returns sharedBuffers victims with a shared receive queue, and an
// attacker for each, on the local path. The function source returns the source of each
// attacker.
func newHalfSenders(t *testing.T, source func(i int) access.Source) (queue *srq, victims, attackers []*end, now *time.Duration) {
	d := openDevice(t, &Config{Vectors: 2})
	shard, err := d.shard(0, verbs.ProgressManual)
	require.NoError(t, err)
	now = new(time.Duration)
	shard.clock = func() time.Duration { return *now }
	queue, victims = newSharedEnds(newEnd(t, d, 0, verbs.ProgressManual), sharedBuffers)
	for i, victim := range victims {
		attacker := newEnd(t, d, 1, verbs.ProgressManual)
		attacker.connect(victim, nil)
		victim.connect(attacker, nil)
		becomeReady(attacker, victim)
		victim.qp.path.(*shmConn).source = source(i)
		attackers = append(attackers, attacker)
	}
	return queue, victims, attackers, now
}

// oneSource is the source of all attackers in a test.
func oneSource(int) access.Source { return access.LocalSource(77, 0) }

// whole is a message of one fragment.
var whole = fragment.Fragment{Op: fragment.Send, Flags: fragment.First | fragment.Last, Length: 1}

// nextAttempt makes the next request of e the first one after an RNR NAK; see shm.Dest.
func (e *end) nextAttempt() {
	dest := &e.qp.path.(*shmConn).dest
	*dest = dest.Next()
}

// sendHalf sends the first byte of a message.
func (e *end) sendHalf() {
	publishFrame(e, fragment.Fragment{Op: fragment.Send, Flags: fragment.First, Length: 1})
}

// Many connections of one source send only the first byte of a message. Their messages
// hold the share of the source, and the others get an RNR NAK. A message of one fragment
// is never refused. When the messages have stalled, each further refusal ends one
// connection, and no other one ends.
func TestHalfSentMessagesHoldAShare(t *testing.T) {
	const share = sharedBuffers / partialShares
	queue, victims, attackers, now := newHalfSenders(t, oneSource)
	cq, shard := victims[0], victims[0].qp.shard
	for _, attacker := range attackers {
		attacker.sendHalf()
	}
	require.Empty(t, cq.pollN(3))
	require.Equal(t, sharedBuffers-share, queue.rq.len())
	require.EqualValues(t, sharedBuffers-share, shard.counts[counters.PartialRefused].Load())
	attackers[share].nextAttempt()
	publishFrame(attackers[share], whole)
	require.Len(t, cq.pollN(3), 1, "a whole message has a buffer")
	queue.fill(t, cq.mr)

	limit := victims[0].qp.partialLimit()
	attr := &victims[0].qp.attr
	require.Greater(t, limit, verbs.AckTimeout(attr.Timeout)*time.Duration(attr.RetryCount+1))
	*now += time.Hour
	shard.fireTimers()
	require.Len(t, cq.pollN(3), 0, "nothing is refused, so nobody waits for the buffers")
	require.Len(t, queue.partial.stalled, share)

	for i := range share {
		// The connection was refused, so its next request has the next attempt number.
		other := attackers[share+1+i]
		other.nextAttempt()
		other.sendHalf()
		got := cq.pollN(3)
		require.Len(t, got, 1, "one message gives its buffer back")
		require.Equal(t, verbs.StatusRespTimeoutErr, got[0].Status)
		require.EqualValues(t, 7, got[0].ID)
		require.Len(t, queue.partial.stalled, share-1-i)
		other.nextAttempt()
		other.sendHalf()
		require.Empty(t, cq.pollN(3), "now the message has a buffer")
		require.Equal(t, share, queue.partial.held)
	}
	require.EqualValues(t, share, shard.counts[counters.PartialExpired].Load())
	for _, victim := range victims[2*share+1:] {
		require.Equal(t, verbs.StateRTS, victim.qp.State(), "no other connection ends")
	}
	for _, e := range attackers {
		e.pollN(1)
	}
}

// On the local path too, the RNR NAK of a refusal has a longer time than MinRNRTimer.
func TestRefusalMakesTheSenderWait(t *testing.T) {
	const share = sharedBuffers / partialShares
	_, victims, attackers, _ := newHalfSenders(t, oneSource)
	for _, attacker := range attackers[:share] {
		attacker.sendHalf()
	}
	sender := attackers[share]
	sender.qp.shard.clock = func() time.Duration { return 0 }
	sender.post(verbs.SendWR{Opcode: verbs.OpSend, SGEs: []verbs.SGE{verbs.SGEOf(sender.mr, 0, 20_000)}})
	victims[0].pollN(3)
	sender.pollN(1)
	require.True(t, sender.qp.rnr.waiting)
	code := victims[share].qp.attr.MinRNRTimer
	require.Equal(t, verbs.RNRDelay(code+rnrCodeStep), sender.qp.rnr.timer.When())
}

// Many sources take all buffers with half-sent messages. A message that finds no buffer
// ends the connection of the message that has stalled longest, of whatever source.
func TestNoBufferEndsAStalledMessage(t *testing.T) {
	queue, victims, attackers, now := newHalfSenders(t, func(i int) access.Source { return access.LocalSource(uint32(100+i), 0) })
	cq := victims[0]
	for _, attacker := range attackers[:sharedBuffers-1] {
		attacker.sendHalf()
	}
	cq.pollN(3)
	require.Equal(t, 1, queue.rq.len())
	honest := attackers[sharedBuffers-1]
	publishFrame(honest, whole)
	require.Len(t, cq.pollN(3), 1)
	*now += maxPartialLimit - 1
	publishFrame(honest, whole)
	require.Empty(t, cq.pollN(3), "the messages have not stalled yet, so this one is refused")
	*now++
	publishFrame(honest, whole)
	queue.shard.fireTimers()
	require.Len(t, queue.partial.stalled, sharedBuffers-1, "messages of another connection are no progress")
	first := queue.partial.stalled[0]
	honest.nextAttempt()
	publishFrame(honest, whole)
	got := cq.pollN(3)
	require.Len(t, got, 1)
	require.Equal(t, verbs.StatusRespTimeoutErr, got[0].Status)
	require.Equal(t, verbs.StateError, first.state)
	queue.fill(t, cq.mr)
	honest.nextAttempt()
	publishFrame(honest, whole)
	got = cq.pollN(3)
	require.Len(t, got, 1)
	require.Equal(t, verbs.StatusSuccess, got[0].Status)
	for _, e := range attackers {
		e.pollN(1)
	}
}

// A slow message completes if partialProgress bytes of it arrive in each time limit, also
// if others wait for its buffer. Bytes that are still in the ring count too.
func TestSlowMessagesComplete(t *testing.T) {
	queue, victims, senders, now := newHalfSenders(t, oneSource)
	victim, sender, other := victims[0], senders[0], senders[1]
	for queue.rq.pop(new(rqe)) { // This leaves one buffer, which is large.
	}
	queue.rq.held = 0
	_, err := queue.PostRecv([]verbs.RecvWR{{ID: 1, SGEs: []verbs.SGE{verbs.SGEOf(victim.mr, 0, 1<<20)}}})
	require.NoError(t, err)
	out := &sender.qp.path.(*shmConn).p.out
	send := func(flags fragment.Flags, n int) {
		dst, inArea, ok := out.Reserve(uint32(n))
		require.True(t, ok)
		require.Len(t, dst, n)
		if inArea {
			flags |= shm.FlagArea
		}
		publishFrame(sender, fragment.Fragment{Op: fragment.Send, Flags: flags, Length: uint32(n)})
	}
	refused := func() {
		publishFrame(other, whole)
		other.nextAttempt()
	}
	send(fragment.First, partialProgress)
	refused()
	require.Empty(t, victim.pollN(3))
	for range 20 {
		*now += victim.qp.partialLimit()
		send(0, partialProgress)
		// The timer has expired, and a fragment is in the ring. The shard processes the
		// timer first.
		queue.shard.fireTimers()
		refused()
		require.Empty(t, victim.pollN(3))
	}
	*now += victim.qp.partialLimit() / 2
	send(fragment.Last, 1)
	got := victim.pollN(3)
	require.Len(t, got, 1)
	require.Equal(t, verbs.StatusSuccess, got[0].Status)
	require.EqualValues(t, 21*partialProgress+1, got[0].ByteLen)

	*now += time.Hour
	queue.shard.fireTimers()
	require.Equal(t, verbs.StateRTS, victim.qp.State())
	require.False(t, victim.qp.partial.timer.Running(), "there is no incomplete message")
	require.Zero(t, queue.partial.held)
	for _, e := range senders {
		e.pollN(1)
	}
}

// A message of which fewer than partialProgress bytes arrive within the time limit has
// stalled, until its next fragment arrives.
func TestTricklingMessagesStall(t *testing.T) {
	queue, victims, senders, now := newHalfSenders(t, oneSource)
	victim, sender := victims[0], senders[0]
	sender.sendHalf()
	victim.pollN(3)
	for range 4 {
		for range 4 {
			require.Empty(t, queue.partial.stalled)
			*now += victim.qp.partialLimit()/4 + 1
			publishFrame(sender, fragment.Fragment{Op: fragment.Send, Length: 1})
			victim.pollN(3)
			queue.shard.fireTimers()
		}
		require.Equal(t, []*qp{victim.qp}, queue.partial.stalled)
		publishFrame(sender, fragment.Fragment{Op: fragment.Send, Length: 1})
		victim.pollN(3)
	}
	*now += victim.qp.partialLimit()
	queue.shard.fireTimers()
	publishFrame(sender, fragment.Fragment{Op: fragment.Send, Flags: fragment.Last, Length: 1})
	require.Len(t, victim.pollN(3), 1, "a stalled message can complete")
	require.Empty(t, queue.partial.stalled)
	require.Zero(t, queue.partial.held)
	sender.pollN(1)
}

// A queue pair that is reset or closed gives back its share.
func TestResetEndsTheShare(t *testing.T) {
	queue, victims, attackers, now := newHalfSenders(t, oneSource)
	for i := range 3 {
		attackers[i].sendHalf()
	}
	victims[0].pollN(3)
	require.Equal(t, 3, queue.partial.shares[oneSource(0)].refs)
	*now += maxPartialLimit
	queue.shard.fireTimers()
	require.Len(t, queue.partial.stalled, 3)
	require.NoError(t, victims[0].qp.Modify(&verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState))
	require.NoError(t, victims[1].qp.Close())
	require.NoError(t, victims[2].qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	require.Zero(t, queue.partial.held)
	require.Empty(t, queue.partial.stalled)
	require.Equal(t, 1, queue.partial.shares[oneSource(0)].refs, "a queue pair in the error state keeps its path")
	require.NoError(t, victims[2].qp.Close())
	require.Empty(t, queue.partial.shares)
	for _, e := range attackers {
		e.pollN(1)
	}
}

// Nobody waits for a buffer of the queue pair's own receive queue. So the connection of a
// message that has stalled in it does not end.
func TestWireHalfSentMessage(t *testing.T) {
	p := newScript(t)
	p.e.recv(1, 0, 4096)
	p.send(p.request(wire.SendFirst, 0, scriptMTU))
	p.advance(24 * time.Hour)
	p.wantQuiet("nobody waits for the buffer")
	p.send(p.request(wire.SendLast, 1, 1))
	p.wantDone("the message is complete", verbs.StatusSuccess, 1)
}

// Each refusal in a row makes the time in the RNR NAK about four times as long.
func TestRNRTimerOfRefusals(t *testing.T) {
	q := &qp{}
	q.attr.MinRNRTimer = 12
	var times []time.Duration
	for range maxRefusals {
		times = append(times, verbs.RNRDelay(q.rnrTimer()))
		q.partial.refusals++
	}
	const µs = time.Microsecond
	require.Equal(t, []time.Duration{640 * µs, 2560 * µs, 10240 * µs, 40960 * µs, 163840 * µs, 655360 * µs, 655360 * µs, 655360 * µs}, times)
	for code := range uint8(verbs.MaxTimerCode + 1) {
		for refusals := range uint8(maxRefusals + 1) {
			q.attr.MinRNRTimer, q.partial.refusals = code, refusals
			require.LessOrEqual(t, q.rnrTimer(), uint8(verbs.MaxTimerCode))
			require.GreaterOrEqual(t, verbs.RNRDelay(q.rnrTimer()), verbs.RNRDelay(code))
		}
	}
}

// A FIRST or MIDDLE packet must fill the path MTU (IBTA vol. 1, 9.7.4.1.6). A shorter
// packet is an invalid request and takes no receive buffer.
func TestWireShortFirstPacket(t *testing.T) {
	p := newScript(t)
	p.e.recv(1, 0, 4096)
	p.send(p.request(wire.SendFirst, 0, 1))
	p.wantSyndrome("the packet is too short", wire.NAK(wire.NAKInvalidRequest), 0)
	p.wantDone("", verbs.StatusWRFlushErr, 1)
}

// The time limit for incomplete messages is longer than all retries of a sender take, but
// never longer than maxPartialLimit, whatever the sender has chosen.
func TestPartialLimit(t *testing.T) {
	q := &qp{}
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
	p.timer.init(newTestShard(), timerheap.Func(func() {}))
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
