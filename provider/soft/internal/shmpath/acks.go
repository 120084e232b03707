//go:build linux

package shmpath

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// failureOutcomes has the outcome for each reason of a failure.
var failureOutcomes = [...]qp.Outcome{
	shm.InvalidRequest: qp.OutcomeInvalidRequest,
	shm.AccessError:    qp.OutcomeAccessError,
	shm.OperationError: qp.OutcomeOperationError,
}

// failureOf returns the reason that the peer gets for a failed request.
func failureOf(a qp.Outcome) shm.Failure { return shm.Failure(slices.Index(failureOutcomes[:], a)) }

// sentSlots has positions in the ring on which a shard sends. A position is the number of
// slots since the beginning.
type sentSlots struct {
	seq uint64 // number of slots filled
	// position before which the peer has executed or refused all requests
	executed uint64
	lastAck  shm.Ack // acknowledgement that was processed last
	// requests whose execution has to be reported, in the order of their slots
	awaited awaitedQueue
}

// position returns the position whose lower 32 bits are given. This is the first such
// position that is not before s.executed. The result ok is false if fewer slots than
// that were filled.
func (s *sentSlots) position(low uint32) (at uint64, ok bool) {
	at = s.executed + uint64(low-uint32(s.executed))
	return at, at <= s.seq
}

// An awaitedQueue is a queue of requests that wait for an acknowledgement.
type awaitedQueue struct {
	entries    []awaited // ring; its length is a power of two
	head, tail uint32    // positions of the first entry and after the last entry; they wrap
}

// An awaited entry belongs to a connection that waits until the slot seq is executed.
type awaited struct {
	seq uint64
	c   *Conn
}

func (q *awaitedQueue) empty() bool { return q.head == q.tail }

func (q *awaitedQueue) push(seq uint64, c *Conn) {
	if int(q.tail-q.head) == len(q.entries) {
		q.grow()
	}
	q.entries[q.tail&uint32(len(q.entries)-1)] = awaited{seq, c}
	q.tail++
}

func (q *awaitedQueue) grow() {
	grown := make([]awaited, max(16, 2*len(q.entries)))
	for i := q.head; i != q.tail; i++ {
		grown[i&uint32(len(grown)-1)] = q.entries[i&uint32(len(q.entries)-1)]
	}
	q.entries = grown
}

// pop removes the first entry and returns its connection. If the queue is empty, or if
// the slot of the first entry is not before the position executed, pop returns nil.
func (q *awaitedQueue) pop(executed uint64) *Conn {
	if q.empty() {
		return nil
	}
	first := &q.entries[q.head&uint32(len(q.entries)-1)]
	if first.seq >= executed {
		return nil
	}
	c := first.c
	first.c = nil
	q.head++
	return c
}

// keepFifo is the largest number of elements for which an empty fifo keeps its memory.
// Arbitrary.
const keepFifo = 1 << 10

// A fifo is a queue. Its zero value is empty.
type fifo[T comparable] struct {
	list []T
	head int // index of the first element of the queue
}

func (q *fifo[T]) len() int { return len(q.list) - q.head }

func (q *fifo[T]) push(e T) { q.list = append(q.list, e) }

// pop removes and returns the first element. When half of the list is free, it moves the
// rest to the beginning.
func (q *fifo[T]) pop() T {
	e := q.list[q.head]
	if q.head++; 2*q.head >= len(q.list) {
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
		if n == 0 && cap(q.list) > keepFifo {
			q.list = nil
		}
	}
	return e
}

// remove removes an element, if it is in the queue.
func (q *fifo[T]) remove(e T) {
	if i := slices.Index(q.list[q.head:], e); i >= 0 {
		q.list = slices.Delete(q.list, q.head+i, q.head+i+1)
	}
}

// acks decides when the slots of the peer are acknowledged.
type acks struct {
	unacked   uint32 // number of slots consumed and not acknowledged
	requested bool   // true if the peer waits for an acknowledgement
	// position before which all requests were acknowledged as executed
	executed uint32
}

// consumed counts a consumed slot. If ask is true, the peer waits for the
// acknowledgement of this slot.
func (a *acks) consumed(ask bool) {
	a.unacked++
	a.requested = a.requested || ask
}

// due reports whether an acknowledgement has to be sent now. The peer may be waiting for
// it, or the number of unacknowledged slots has reached the limit. Otherwise the
// acknowledgement may be sent later.
func (a *acks) due(limit uint32) bool { return a.requested || a.unacked >= limit }

// acknowledge returns the acknowledgement of all slots before the position head. If some
// of them were not executed, the peer must also get notices. The parameter refusalsSent
// is false if such a notice waits for room in the ring.
func (a *acks) acknowledge(head uint32, refusalsSent bool) shm.Ack {
	a.unacked, a.requested = 0, false
	if refusalsSent {
		a.executed = head
	}
	return shm.NewAck(head, a.executed)
}
