//go:build linux

package soft

import (
	"math"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A wqe is a send work request on the queue.
type wqe struct {
	id               uint64
	op               verbs.Opcode
	flags            verbs.SendFlags
	status           verbs.Status // a failure found before anything was sent
	responseComplete bool         // READ and atomics: the response is complete
	imm              uint32
	total            uint32 // bytes of the message
	sent             uint32 // bytes sent, where the path counts them
	received         uint32 // bytes of the response received
	firstSeq         uint64 // path sequence of its first fragment, where the path needs it
	messageNumber    uint64 // its number among the messages of the path, where that counts them
	lastSeq          uint64 // path sequence of its last fragment; unsent until that is out
	addr             uint64
	key              uint32
	compare          uint64
	swap             uint64
	sges             []verbs.SGE // on storage of the queue
	inline           []byte      // on storage of the queue

	to     verbs.AH // UD
	toQPN  uint32
	toQKey uint32
}

// expectsResponse reports whether the peer answers with data.
func (w *wqe) expectsResponse() bool { return w.op == verbs.OpRead || w.op.Atomic() }

// unsent is the last sequence of a request that is not completely out.
const unsent = math.MaxUint64

// A sendQueue holds requests in the order posted, from done, the oldest unanswered
// one, to tail. Requests from begun on were never sent. next is the request to be
// sent now; it is before begun while requests are sent again. Counters wrap. A
// request that is done occupies its place until it is polled.
type sendQueue struct {
	entries                 []wqe // grows to the depth as it is needed
	done, next, begun, tail uint32
	cqSpace
	depth             uint32
	maxSGE, maxInline int
}

// initialSendEntries is how many requests a queue has room for before it grows: few, for
// there are many connections on which there is never more than one or two.
const initialSendEntries = 8

func newSendQueue(caps *verbs.QPCaps) sendQueue {
	q := sendQueue{depth: clampUint32(caps.MaxSendWR), maxSGE: caps.MaxSendSGE, maxInline: caps.MaxInline}
	q.resize(min(ceilPow2(caps.MaxSendWR), initialSendEntries))
	return q
}

// resize makes room for size requests, a power of two.
func (q *sendQueue) resize(size int) {
	old := *q
	q.entries = make([]wqe, size)
	sges, inline := make([]verbs.SGE, size*q.maxSGE), make([]byte, size*q.maxInline)
	for i := range q.entries {
		q.entries[i].sges = sges[i*q.maxSGE : i*q.maxSGE : (i+1)*q.maxSGE]
		q.entries[i].inline = inline[i*q.maxInline : i*q.maxInline : (i+1)*q.maxInline]
	}
	for i := q.done; i != q.tail; i++ {
		w, was := q.at(i), *old.at(i)
		was.sges, was.inline = append(w.sges, was.sges...), append(w.inline, was.inline...)
		*w = was
	}
}

func (q *sendQueue) at(i uint32) *wqe { return &q.entries[i&uint32(len(q.entries)-1)] }

func (q *sendQueue) full() bool { return q.tail-q.done+q.held >= q.depth }

// outstanding reports whether a request was sent, or a part of one, and is not
// answered.
func (q *sendQueue) outstanding() bool { return q.done != q.begun }

// retire ends the oldest request, which may be answered before all of it was
// sent again, or flushed before any was sent.
func (q *sendQueue) retire() {
	if q.next == q.done {
		q.next++
	}
	if q.begun == q.done {
		q.begun++
	}
	q.done++
}

// complete ends the oldest request with a completion on c.
func (q *sendQueue) complete(c *cq, wc *verbs.WC) {
	q.retire()
	q.held++
	c.push(wc, &q.cqSpace, false)
}

// push copies a checked request, for which there is room.
func (q *sendQueue) push(wr *verbs.SendWR, total uint32) {
	if int(q.tail-q.done) == len(q.entries) {
		q.resize(2 * len(q.entries))
	}
	w := q.at(q.tail)
	w.id, w.op, w.flags = wr.ID, wr.Opcode, wr.Flags
	w.status, w.responseComplete = verbs.StatusSuccess, false
	w.imm, w.total = wr.Imm, total
	w.sent, w.received, w.lastSeq = 0, 0, unsent
	w.addr, w.key = wr.RemoteAddr, wr.RKey
	w.compare, w.swap = wr.CompareAdd, wr.Swap
	w.sges = append(w.sges[:0], wr.SGEs...)
	w.inline = append(w.inline[:0], wr.Inline...)
	w.to, w.toQPN, w.toQKey = wr.AH, wr.RemoteQPN, wr.RemoteQKey
	q.tail++
}

// reset forgets everything.
func (q *sendQueue) reset() { q.done, q.next, q.begun, q.tail = 0, 0, 0, 0 }

// ceilPow2 is the smallest power of two that is at least n, and at least 1.
func ceilPow2(n int) int {
	size := 1
	for size < n {
		size *= 2
	}
	return size
}
