//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// skip changes the counters of both ends as if p had sent n slots, and the other end, the
// parameter peer, had executed them.
func (p *shmPeer) skip(peer *shmPeer, n uint32) {
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
	a.exchange(b)
	b.exchange(a)
	a.pollN(2 * ackEvery)
	b.pollN(2 * ackEvery)
	connOf(b).p.skip(connOf(a).p, 1<<31)
	for range 4 {
		b.exchange(a)
		a.exchange(b)
	}
}

// Requests that are executed while a notice waits for room in the ring are acknowledged
// after the notice.
func TestAcksAfterNotices(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{slots: 8})
	a, b := newNeighbors(t, x, y)
	for i := range 8 {
		x.recv(uint64(i), 0, 10)
		for !y.qp.SendInline(1, 0, []byte("x")) {
			y.pollN(1)
		}
	}
	y.qp.Doorbell()
	b.recv(1, 0, 10)
	require.NoError(t, y.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	require.Equal(t, 1, connOf(y).p.notices.len(), "the ring to x is full")
	a.post(verbs.SendWR{ID: 60, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	require.Len(t, b.pollN(10), 1)
	require.EqualValues(t, 60, a.wait(1, b)[0].ID)
}

// y has executed a message of x. Before y can acknowledge it, notices wait for room in
// the ring. x does not flush the message before the notices have arrived. Then the
// message completes with success.
func TestAwaitsNotices(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{slots: 8})
	a, b := newNeighbors(t, x, y)
	for i := range 8 {
		x.recv(uint64(i), 0, 10)
		for !y.qp.SendInline(1, 0, []byte("x")) {
			y.pollN(1)
		}
	}
	y.qp.Doorbell()
	require.NoError(t, b.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	y.recv(1, 0, 10)
	x.post(verbs.SendWR{ID: 60, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	require.Equal(t, verbs.StatusSuccess, y.wait(1)[0].Status)
	require.NoError(t, y.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	require.Equal(t, 2, connOf(y).p.notices.len(), "the ring to x is full")

	awaits := func(e *end) bool { return connOf(e).awaitsNotices() }
	require.False(t, awaits(a), "no request of a is outstanding")
	for range 10 {
		require.True(t, awaits(x))
		for _, wc := range x.pollN(10) {
			require.NotEqualValues(t, 60, wc.ID)
		}
	}
	y.pollN(1)
	require.False(t, awaits(x))
	require.NoError(t, x.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	sent := x.pollN(10)[0]
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
		x.recv(uint64(i), 0, 10)
		require.True(t, y.qp.SendInline(1, 0, []byte("x")))
	}
	y.qp.Doorbell()
	require.NoError(t, b.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	y.recv(1, 0, 10)
	x.post(verbs.SendWR{ID: 600, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	require.Equal(t, verbs.StatusSuccess, y.wait(1)[0].Status)
	require.NoError(t, x.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	for _, wc := range x.pollN(10) {
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
	b.exchange(a)
	a.pollN(2 * ackEvery)
	b.pollN(2 * ackEvery)
	for range 3 {
		connOf(b).p.skip(connOf(a).p, 1<<30)
		a.pollN(2 * ackEvery)
	}
	a.exchange(b)
}

// The region of a READ may be closed while the response waits for room. Then only the
// connection of the READ fails.
func TestRegionOfAReadIsClosed(t *testing.T) {
	const size = 64 << 10
	x, y := newLocalPair(t, memoryConfig{bytes: 16 << 10})
	a, b := newNeighbors(t, x, y)
	mr, err := y.pd.Alloc(&verbs.AllocAttr{Size: size, Access: verbs.AccessAll})
	require.NoError(t, err)
	x.post(verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.SendSignaled,
		SGEs: []verbs.SGE{verbs.SGEOf(x.mr, 0, size)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()})
	y.pollN(2)
	a.exchange(b)
	require.NoError(t, mr.Close())
	require.Equal(t, verbs.StatusRemAccessErr, x.wait(1, y)[0].Status)
	a.exchange(b)
}

// A peer that announces notices without sending them violates the protocol. It must not
// keep the owner awake.
func TestAnnouncedNoticesAreMissing(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := newEnd(t, d, 0, verbs.ProgressManual), newSleeper(t, d, 1, verbs.ProgressManual)
	a.connect(b.end, nil)
	b.connect(a, nil)
	becomeReady(a, b.end)
	a.recv(1, 0, 10)
	p := connOf(a).p
	p.own.Refusals.Store(p.out.Tail + 3000)
	b.post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	a.pollN(10)
	b.requireAsleep()
	require.Equal(t, verbs.StateError, b.qp.State())
}

// A peer may consume all slots and then refuse their requests again and again. The
// memory for pending requests is limited.
func TestPendingRequestsAreLimited(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{slots: 8})
	advance := b.stopClock()
	pa, pb := connOf(a).p, connOf(b).p
	b.pollN(2 * ackEvery)
	executed := uint32(pb.sent.executed)
	for range 100 {
		b.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	}
	for range 500 {
		pa.own.Ack.Store(uint64(shm.NewAck(pb.out.Tail, executed)))
		publish(a, fragment.Fragment{Op: shm.Refused, Imm: executed, Addr: uint64(shm.RNRNAK(1))})
		pa.out.Freed = pb.in.Head
		b.pollN(1)
		advance(verbs.RNRDelay(1))
		b.qp.shard.fireTimers()
		waiting := pb.sent.awaited.tail - pb.sent.awaited.head
		require.LessOrEqual(t, waiting, uint32(maxPending*pb.out.Len()))
	}
}

// The response to a READ waits for room, and a later WRITE is refused. The READ succeeds
// first, and then the WRITE fails.
func TestFailureWaitsForResponses(t *testing.T) {
	const size = 64 << 10
	a, b := newLocalPair(t, memoryConfig{bytes: 16 << 10})
	a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.SendSignaled,
		SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	a.post(verbs.SendWR{ID: 2, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled,
		SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() + 77})
	got := a.wait(2, b)
	require.Equal(t, verbs.StatusSuccess, got[0].Status)
	require.Equal(t, verbs.StatusRemAccessErr, got[1].Status)
	require.Zero(t, connOf(b).p.unsettled)
}

// After a response to a READ, the RNR retries are counted from zero again, because a
// response is progress.
func TestRNRCountStartsAnewWithResponse(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := newEnd(t, d, 0, verbs.ProgressManual), newEnd(t, d, 1, verbs.ProgressManual)
	a.connect(b, func(attr *verbs.QPAttr) { attr.RNRRetry = 2 })
	b.connect(a, nil)
	becomeReady(a, b)
	for range 10 {
		a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend})
		a.post(verbs.SendWR{ID: 2, Opcode: verbs.OpRead, Flags: verbs.SendSignaled,
			SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		b.pollN(2)
		b.recv(1, 0, 10)
		require.Equal(t, verbs.StatusSuccess, a.wait(1, b)[0].Status)
		b.pollN(2)
	}
}

// A readyEvent is an event that is always readable. It counts the calls of OnReady.
type readyEvent int

func (n *readyEvent) OnReady(int, uint32) { *n++ }

// pollUntilEpoll polls an end until the next poll handles the descriptors of its shard
// that are ready.
func pollUntilEpoll(t *testing.T, e *end) {
	event, err := fdevent.NewEvent()
	require.NoError(t, err)
	defer func() { require.NoError(t, event.Close()) }()
	event.Signal()
	var ready readyEvent
	require.NoError(t, e.qp.shard.Watch(event.FD(), unix.EPOLLIN, &ready))
	defer e.qp.shard.Unwatch(event.FD())
	period := 0
	for ready < 2 {
		e.pollN(1)
		if ready > 0 {
			period++
		}
	}
	e.pollN(period - 2) // Both the first and the last of these polls have called OnReady.
}

// A peer process may end after it has sent more messages than one poll can return. All
// these messages are received.
func TestMessagesBeforeTheEnd(t *testing.T) {
	const messages = 100
	a, b := newLocalPair(t, memoryConfig{})
	b.qp.ReceiveInline()
	for i := range uint64(messages) {
		b.recv(i, 0, 100)
	}
	pollUntilEpoll(t, b)
	for range messages {
		require.True(t, a.qp.SendInline(1, 0, []byte("x")))
	}
	a.qp.Doorbell()
	connOf(a).p.end.HangUp()
	received := 0
	for _, wc := range b.pollN(20) {
		if wc.Status == verbs.StatusSuccess {
			received++
		}
	}
	require.Equal(t, messages, received)
}
