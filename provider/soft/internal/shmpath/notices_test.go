//go:build linux

package shmpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestNoticeQueue(t *testing.T) {
	var q noticeQueue
	require.False(t, q.waits(0))
	first := q.push(notice{op: shm.Shared, imm: 1})
	second := q.push(notice{op: shm.Refused, imm: 2})
	require.Equal(t, 1, q.shared)
	require.EqualValues(t, 1, q.pop().imm)
	require.Zero(t, q.shared)
	require.False(t, q.waits(first))
	require.True(t, q.waits(second))
	q.pop()
	require.False(t, q.waits(second))
}

// An empty queue does not keep the memory of many elements.
func TestFIFOGivesMemoryBack(t *testing.T) {
	var q fifo[int]
	for i := range 4 * keepFifo {
		q.push(i)
	}
	for i := range 4 * keepFifo {
		require.Equal(t, i, q.pop())
	}
	require.LessOrEqual(t, cap(q.list), keepFifo)
}

// publishMany lets the attacker publish slots until the victim fails or n slots are
// published. The attacker consumes no slots of the victim.
func publishMany(victim, attacker *qptest.End, n int, slot func(i int) *shm.Slot) (published int) {
	p := connOf(attacker).p
	for published < n && victim.QP.State() == verbs.StateRTS {
		for _, _, ok := p.reserve(0); !ok; _, _, ok = p.reserve(0) {
			victim.PollN(1)
			if victim.QP.State() != verbs.StateRTS {
				return published
			}
		}
		p.out.Put(slot(published))
		p.out.PublishFirst()
		p.sent.seq++
		published++
	}
	victim.PollN(10)
	return published
}

// A peer that asks for regions and does not consume the answers loses its connections,
// when more answers wait than a correct peer can have asked for.
func TestSharesAreLimited(t *testing.T) {
	victim, attacker := newLocalPair(t, memoryConfig{slots: 16})
	dest := connOf(attacker).dest
	share := func(i int) *shm.Slot {
		return &shm.Slot{Fragment: fragment.Fragment{Op: shm.Share, Imm: uint32(i + 1)}, Dest: dest}
	}
	p := connOf(victim).p
	most := maxRemoteRegions + 2*p.in.Len()
	publishMany(victim, attacker, maxRemoteRegions, share)
	require.Equal(t, verbs.StateRTS, victim.QP.State(), "a correct peer may have asked for so many")
	require.LessOrEqual(t, publishMany(victim, attacker, 1<<20, share), most)
	require.Equal(t, verbs.StateError, victim.QP.State())
	require.LessOrEqual(t, p.notices.len(), most)
}

// A peer that repeats a refused request, without having consumed the RNR NAK, loses its
// connections.
func TestRefusalsAreLimited(t *testing.T) {
	victim, attacker := newLocalPair(t, memoryConfig{slots: 16})
	dest := connOf(attacker).dest
	p := connOf(victim).p
	publishMany(victim, attacker, 1<<20, func(int) *shm.Slot {
		s := &shm.Slot{Fragment: fragment.Fragment{Op: fragment.Send, Flags: fragment.First | fragment.Last}, Dest: dest}
		dest = dest.Next()
		return s
	})
	require.Equal(t, verbs.StateError, victim.QP.State())
	require.LessOrEqual(t, p.notices.len(), 2)
	require.LessOrEqual(t, p.out.Tail, uint32(p.out.Len()))
}

// While very many notices wait, no connection is added. The existing ones go on when the
// peer consumes the notices.
func TestNoConnectionWhileNoticesWait(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := qptest.NewPair(t, d, verbs.ProgressManual)
	p := connOf(a).p
	for p.notices.len() < maxWaiting {
		p.notify(notice{op: shm.ReadyToo, to: 1})
	}
	c, other := qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewEnd(t, d, 1, verbs.ProgressManual)
	_, err := New(p.all, c.QP, &End{End: p.end}, other.QP.Num())
	require.ErrorIs(t, err, verbs.ErrProtocol)
	for p.notices.len() > 0 {
		b.PollN(1)
		a.PollN(1)
	}
	a.Exchange(b)
}
