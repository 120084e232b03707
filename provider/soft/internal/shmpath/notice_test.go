//go:build linux

package shmpath

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// skip changes the counters of both ends as if p had sent n slots, and the other end, the
// parameter peer, had executed them.
func (p *peer) skip(peer *peer, n uint32) {
	p.out.Tail += n
	p.out.Freed += n
	p.sent.seq += uint64(n)
	p.sent.executed += uint64(n)
	peer.in.Head += n
	peer.acks.executed += n
	peer.own.Ack.Store(uint64(shm.NewAck(peer.in.Head, peer.acks.executed)))
	p.sent.lastAck = shm.Ack(peer.own.Ack.Load())
}

// Acknowledgements are still used when the last notice was sent 2^31 slots ago, which is
// half of the range of a position.
func TestAcksLongAfterANotice(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	a.Exchange(b)
	b.Exchange(a)
	a.PollN(2 * qp.AckEvery)
	b.PollN(2 * qp.AckEvery)
	connOf(b).p.skip(connOf(a).p, 1<<31)
	for range 4 {
		b.Exchange(a)
		a.Exchange(b)
	}
}

// Requests that are executed while a notice waits for room in the ring are acknowledged
// after the notice.
func TestAcksAfterNotices(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{slots: 8})
	a, b := newNeighbors(t, x, y)
	for i := range 8 {
		x.Recv(uint64(i), 0, 10)
		for !y.QP.SendInline(1, 0, []byte("x")) {
			y.PollN(1)
		}
	}
	y.QP.Doorbell()
	b.Recv(1, 0, 10)
	require.NoError(t, y.QP.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	require.Equal(t, 1, connOf(y).p.notices.len(), "the ring to x is full")
	a.Post(verbs.SendWR{ID: 60, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	require.Len(t, b.PollN(10), 1)
	require.EqualValues(t, 60, a.Wait(1, b)[0].ID)
}

// y has executed a message of x. Before y can acknowledge it, notices wait for room in
// the ring. x does not flush the message before the notices have arrived. Then the
// message completes with success.
func TestAwaitsNotices(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{slots: 8})
	a, b := newNeighbors(t, x, y)
	for i := range 8 {
		x.Recv(uint64(i), 0, 10)
		for !y.QP.SendInline(1, 0, []byte("x")) {
			y.PollN(1)
		}
	}
	y.QP.Doorbell()
	require.NoError(t, b.QP.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	y.Recv(1, 0, 10)
	x.Post(verbs.SendWR{ID: 60, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	require.Equal(t, verbs.StatusSuccess, y.Wait(1)[0].Status)
	require.NoError(t, y.QP.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	require.Equal(t, 2, connOf(y).p.notices.len(), "the ring to x is full")

	awaits := func(e *qptest.End) bool { return connOf(e).AwaitsNotices() }
	require.False(t, awaits(a), "no request of a is outstanding")
	for range 10 {
		require.True(t, awaits(x))
		for _, wc := range x.PollN(10) {
			require.NotEqualValues(t, 60, wc.ID)
		}
	}
	y.PollN(1)
	require.False(t, awaits(x))
	require.NoError(t, x.QP.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	sent := x.PollN(10)[0]
	require.EqualValues(t, 60, sent.ID)
	require.Equal(t, verbs.StatusSuccess, sent.Status)
}

// A request completes with success although the queue pair enters the error state before
// it has processed the acknowledgement. The acknowledgement depends on a notice, and many
// slots precede the notice.
func TestErrorStateConsumesAllSlots(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{})
	_, b := newNeighbors(t, x, y)
	for i := range receiveBudget + 1 {
		x.Recv(uint64(i), 0, 10)
		require.True(t, y.QP.SendInline(1, 0, []byte("x")))
	}
	y.QP.Doorbell()
	require.NoError(t, b.QP.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	y.Recv(1, 0, 10)
	x.Post(verbs.SendWR{ID: 600, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	require.Equal(t, verbs.StatusSuccess, y.Wait(1)[0].Status)
	require.NoError(t, x.QP.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	for _, wc := range x.PollN(10) {
		if wc.ID == 600 {
			require.Equal(t, verbs.StatusSuccess, wc.Status)
		}
	}
}

// Pushing and popping do not make a queue grow.
func TestFIFO(t *testing.T) {
	var q fifo[int]
	next := 0
	for i := range 100_000 {
		q.push(i)
		if i > 2 {
			require.Equal(t, next, q.pop())
			next++
		}
	}
	require.Equal(t, 3, q.len())
	require.Less(t, cap(q.list), 100)
	q.remove(next + 1)
	q.remove(next + 1)
	require.Equal(t, []int{next, next + 2}, []int{q.pop(), q.pop()})
	require.Zero(t, q.len())
}

// A peer that only receives for a long time still uses acknowledgements when it sends.
func TestAcksOfAReceiver(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	b.Exchange(a)
	a.PollN(2 * qp.AckEvery)
	b.PollN(2 * qp.AckEvery)
	for range 3 {
		connOf(b).p.skip(connOf(a).p, 1<<30)
		a.PollN(2 * qp.AckEvery)
	}
	a.Exchange(b)
}

// The region of a READ may be closed while the response waits for room. Then only the
// connection of the READ fails.
func TestRegionOfAReadIsClosed(t *testing.T) {
	const size = 64 << 10
	x, y := newLocalPair(t, memoryConfig{bytes: 16 << 10})
	a, b := newNeighbors(t, x, y)
	mr, err := y.PD.Alloc(&verbs.AllocAttr{Size: size, Access: verbs.AccessAll})
	require.NoError(t, err)
	x.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.SendSignaled,
		SGEs: []verbs.SGE{verbs.SGEOf(x.MR, 0, size)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()})
	y.PollN(2)
	a.Exchange(b)
	require.NoError(t, mr.Close())
	require.Equal(t, verbs.StatusRemAccessErr, x.Wait(1, y)[0].Status)
	a.Exchange(b)
}

// A peer that announces notices without sending them violates the protocol. It must not
// keep the owner awake.
func TestAnnouncedNoticesAreMissing(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewSleeper(t, d, 1, verbs.ProgressManual)
	a.Connect(b.End, nil)
	b.Connect(a, nil)
	qptest.BecomeReady(a, b.End)
	a.Recv(1, 0, 10)
	p := connOf(a).p
	p.own.Refusals.Store(p.out.Tail + 3000)
	b.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	a.PollN(10)
	b.RequireAsleep()
	require.Equal(t, verbs.StateError, b.QP.State())
}

// A peer may consume all slots and then refuse their requests again and again. The
// memory for pending requests is limited.
func TestPendingRequestsAreLimited(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{slots: 8})
	advance := b.StopClock()
	pa, pb := connOf(a).p, connOf(b).p
	b.PollN(2 * qp.AckEvery)
	executed := uint32(pb.sent.executed)
	for range 100 {
		b.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	}
	for range 500 {
		pa.own.Ack.Store(uint64(shm.NewAck(pb.out.Tail, executed)))
		publish(a, fragment.Fragment{Op: shm.Refused, Imm: executed, Addr: uint64(shm.RNRNAK(1))})
		pa.out.Freed = pb.in.Head
		b.PollN(1)
		advance(verbs.RNRDelay(1))
		b.QP.Shard.FireTimers()
		waiting := pb.sent.awaited.tail - pb.sent.awaited.head
		require.LessOrEqual(t, waiting, uint32(maxPending*pb.out.Len()))
	}
}

// The response to a READ waits for room, and a later WRITE is refused. The READ succeeds
// first, and then the WRITE fails.
func TestFailureWaitsForResponses(t *testing.T) {
	const size = 64 << 10
	a, b := newLocalPair(t, memoryConfig{bytes: 16 << 10})
	a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.SendSignaled,
		SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, size)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()})
	a.Post(verbs.SendWR{ID: 2, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled,
		SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 8)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey() + 77})
	got := a.Wait(2, b)
	require.Equal(t, verbs.StatusSuccess, got[0].Status)
	require.Equal(t, verbs.StatusRemAccessErr, got[1].Status)
	require.Zero(t, connOf(b).p.unsettled)
}

// After a response to a READ, the RNR retries are counted from zero again, because a
// response is progress.
func TestRNRCountStartsAnewWithResponse(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewEnd(t, d, 1, verbs.ProgressManual)
	a.Connect(b, func(attr *verbs.QPAttr) { attr.RNRRetry = 2 })
	b.Connect(a, nil)
	qptest.BecomeReady(a, b)
	for range 10 {
		a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend})
		a.Post(verbs.SendWR{ID: 2, Opcode: verbs.OpRead, Flags: verbs.SendSignaled,
			SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 8)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()})
		b.PollN(2)
		b.Recv(1, 0, 10)
		require.Equal(t, verbs.StatusSuccess, a.Wait(1, b)[0].Status)
		b.PollN(2)
	}
}

// A readyEvent is an event that is always readable. It counts the calls of OnReady.
type readyEvent int

func (n *readyEvent) OnReady(int, uint32) { *n++ }

// pollUntilEpoll polls an end until the next poll handles the descriptors of its shard
// that are ready.
func pollUntilEpoll(t *testing.T, e *qptest.End) {
	event, err := fdevent.NewEvent()
	require.NoError(t, err)
	defer func() { require.NoError(t, event.Close()) }()
	event.Signal()
	var ready readyEvent
	require.NoError(t, e.QP.Shard.Watch(event.FD(), unix.EPOLLIN, &ready))
	defer e.QP.Shard.Unwatch(event.FD())
	period := 0
	for ready < 2 {
		e.PollN(1)
		if ready > 0 {
			period++
		}
	}
	e.PollN(period - 2) // Both the first and the last of these polls have called OnReady.
}

// A peer process may end after it has sent more messages than one poll can return. All
// these messages are received.
func TestMessagesBeforeTheEnd(t *testing.T) {
	const messages = 100
	a, b := newLocalPair(t, memoryConfig{})
	b.RecvInline()
	for i := range uint64(messages) {
		b.Recv(i, 0, 100)
	}
	pollUntilEpoll(t, b)
	for range messages {
		require.True(t, a.QP.SendInline(1, 0, []byte("x")))
	}
	a.QP.Doorbell()
	connOf(a).p.end.HangUp()
	received := 0
	for _, wc := range b.PollN(20) {
		if wc.Status == verbs.StatusSuccess {
			received++
		}
	}
	require.Equal(t, messages, received)
}
