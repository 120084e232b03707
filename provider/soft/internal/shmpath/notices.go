//go:build linux

package shmpath

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// A notice is a slot without payload, such as Ready, Refused, Stopped or Shared; see
// package shm.
type notice struct {
	op    fragment.Op
	to    shm.Dest
	imm   uint32 // value of Slot.Imm
	value uint8  // value of Slot.Addr
}

// maxWaiting is how many notices may wait in a noticeQueue when a connection is added. A
// peer that consumes no notices, while its connections end and it opens others, gets no
// further one. 16 bytes each. Arbitrary.
const maxWaiting = 1 << 14

// A noticeQueue has the notices that wait for room in the ring. A peer that does not
// consume its slots can not make it grow without end:
//
//   - A connection sends Ready and Stopped once, and ReadyToo maxAnswers times.
//   - A connection refuses a request with an RNR NAK only if its last NAK was sent. A
//     correct peer repeats the request only when it has the NAK.
//   - A connection sends Granted when the application changes the queue pair.
//   - The answers Shared that wait are limited; see Conn.share.
//   - A connection is not added while maxWaiting notices wait.
type noticeQueue struct {
	fifo[notice]
	sent   uint64 // number of notices that were taken out since the beginning
	shared int    // number of notices Shared in the queue
}

// push adds a notice, and returns its number. Numbers begin at 1.
func (q *noticeQueue) push(n notice) (number uint64) {
	if n.op == shm.Shared {
		q.shared++
	}
	q.fifo.push(n)
	return q.sent + uint64(q.len())
}

func (q *noticeQueue) pop() notice {
	n := q.fifo.pop()
	q.sent++
	if n.op == shm.Shared {
		q.shared--
	}
	return n
}

// waits reports whether the notice with a number is still in the queue. There is no
// notice 0.
func (q *noticeQueue) waits(number uint64) bool { return number > q.sent }

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
