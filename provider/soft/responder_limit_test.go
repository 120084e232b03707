//go:build linux

package soft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// sharedBuffers is the number of buffers of newSharedEnds. Arbitrary.
const sharedBuffers = 64

// newSharedEnds returns a shared receive queue, and sharedBuffers ends that use the
// queue. The queue has one buffer for each end.
func newSharedEnds(t *testing.T, d *device) (*srq, []*end) {
	first := newEnd(t, d, 0, verbs.ProgressManual)
	s, err := first.pd.CreateSRQ(&verbs.SRQAttr{CQ: first.cq, MaxWR: sharedBuffers, MaxSGE: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	var ends []*end
	for range sharedBuffers {
		e := &end{t: t, pd: first.pd, cq: first.cq, mr: first.mr, wc: first.wc}
		q, err := e.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: e.cq, RecvCQ: e.cq, SRQ: s,
			Caps: verbs.QPCaps{MaxSendWR: 4, MaxSendSGE: 1}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, q.Close()) })
		e.qp = q.(*qp)
		ends = append(ends, e)
	}
	own := s.(*srq)
	own.fill(t, first.mr)
	return own, ends
}

// fill posts receive buffers until the shared receive queue is full.
func (s *srq) fill(t *testing.T, mr verbs.MR) {
	for s.rq.tail-s.rq.head+s.rq.held < s.rq.depth {
		_, err := s.PostRecv([]verbs.RecvWR{{ID: 7, SGEs: []verbs.SGE{verbs.SGEOf(mr, 0, 4096)}}})
		require.NoError(t, err)
	}
}

// Many peers send only the first byte of a message. Together they take all shared
// receive buffers. After the time limit, the buffers are free again.
func TestHalfSentMessagesGiveBuffersBack(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 2})
	shard, err := d.shard(0, verbs.ProgressManual)
	require.NoError(t, err)
	var now time.Duration
	shard.clock = func() time.Duration { return now }
	queue, victims := newSharedEnds(t, d)
	var attackers []*end
	for _, victim := range victims {
		attacker := newEnd(t, d, 1, verbs.ProgressManual)
		attacker.connect(victim, nil)
		victim.connect(attacker, nil)
		becomeReady(attacker, victim)
		publishFrame(attacker, fragment.Fragment{Op: fragment.Send, Flags: fragment.First, Length: 1})
		attackers = append(attackers, attacker)
	}
	cq := victims[0]
	cq.pollN(3)
	require.Zero(t, queue.rq.len(), "no buffer is left")

	limit := victims[0].qp.partialLimit()
	attr := &victims[0].qp.attr
	require.Greater(t, limit, verbs.AckTimeout(attr.Timeout)*time.Duration(attr.RetryCount+1))
	now += limit - 1
	shard.fireTimers()
	require.Empty(t, cq.pollN(3))
	now++
	shard.fireTimers()
	got := cq.pollN(5)
	require.Len(t, got, sharedBuffers)
	for _, wc := range got {
		require.Equal(t, verbs.StatusRespTimeoutErr, wc.Status)
		require.EqualValues(t, 7, wc.ID)
	}
	queue.fill(t, cq.mr)
	require.Equal(t, sharedBuffers, queue.rq.len(), "all buffers are returned")
	for i := range victims {
		require.Equal(t, verbs.StateError, victims[i].qp.State())
		attackers[i].pollN(1)
	}
	require.EqualValues(t, sharedBuffers, shard.counts[counters.PartialExpired].Load())
}

// A slow message completes if partialProgress bytes of it arrive in each time limit.
// Bytes that are still in the ring count too.
func TestSlowMessagesComplete(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 2})
	victim, sender := newPair(t, d, verbs.ProgressManual)
	var now time.Duration
	victim.qp.shard.clock = func() time.Duration { return now }
	victim.recv(1, 0, 1<<20)
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
	send(fragment.First, partialProgress)
	require.Empty(t, victim.pollN(3))
	for range 20 {
		now += victim.qp.partialLimit()
		send(0, partialProgress)
		// The timer has expired, and a fragment is in the ring. The shard processes the
		// timer first.
		victim.qp.shard.fireTimers()
		require.Empty(t, victim.pollN(3))
	}
	now += victim.qp.partialLimit() / 2
	send(fragment.Last, 1)
	got := victim.pollN(3)
	require.Len(t, got, 1)
	require.Equal(t, verbs.StatusSuccess, got[0].Status)
	require.EqualValues(t, 21*partialProgress+1, got[0].ByteLen)

	now += time.Hour
	victim.qp.shard.fireTimers()
	require.Equal(t, verbs.StateRTS, victim.qp.State())
	require.False(t, victim.qp.partial.timer.Running(), "there is no incomplete message")
}

// A peer that sends fewer than partialProgress bytes within the time limit loses its
// connection.
func TestTricklingMessagesEnd(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 2})
	victim, sender := newPair(t, d, verbs.ProgressManual)
	var now time.Duration
	victim.qp.shard.clock = func() time.Duration { return now }
	victim.recv(1, 0, 1<<20)
	publishFrame(sender, fragment.Fragment{Op: fragment.Send, Flags: fragment.First, Length: 1})
	victim.pollN(3)
	for range 8 {
		now += victim.qp.partialLimit()/4 + 1
		publishFrame(sender, fragment.Fragment{Op: fragment.Send, Length: 1})
		victim.pollN(3)
		victim.qp.shard.fireTimers()
	}
	require.Equal(t, verbs.StateError, victim.qp.State())
}

// When a message on the wire path exceeds the time limit, the peer gets a NAK, and the
// queue pair fails.
func TestWireHalfSentMessage(t *testing.T) {
	p := newScript(t)
	p.e.recv(1, 0, 4096)
	p.send(p.request(wire.SendFirst, 0, scriptMTU))
	p.advance(p.conn.q.partialLimit() - 1)
	p.wantQuiet("the sender may still retry")
	require.Equal(t, verbs.StateRTS, p.e.qp.state)
	p.advance(1)
	p.wantSyndrome("the limit has passed", wire.NAK(wire.NAKRemoteOperational), 1)
	p.wantDone("the buffer is returned", verbs.StatusRespTimeoutErr, 1)
	require.Equal(t, verbs.StateError, p.e.qp.state)
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

// The time limit for incomplete messages is longer than all retries of a sender take,
// but never longer than maxPartialLimit.
func TestPartialLimit(t *testing.T) {
	q := &qp{}
	for timeout := range uint8(32) {
		for retries := range uint8(8) {
			q.attr.Timeout, q.attr.RetryCount = timeout, retries
			limit := q.partialLimit()
			require.GreaterOrEqual(t, limit, minPartialLimit)
			require.LessOrEqual(t, limit, maxPartialLimit)
			if timeout > 0 && timeout <= 24 {
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
	p.begin()
	p.watch(100, time.Second)
	require.Equal(t, time.Second, p.timer.When())
	require.True(t, p.stalled(p.started, 100+partialProgress-1))
	require.False(t, p.stalled(p.started, 100+partialProgress))
	p.begin()
	require.False(t, p.stalled(p.started, 100), "this is another message")
	p.watch(0, time.Second)
	require.True(t, p.stalled(p.started, 0))
}
