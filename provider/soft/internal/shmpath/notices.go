//go:build linux

package shmpath

import (
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
