//go:build cgo && linux

package rdmacore

import (
	"unsafe"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// After this many polls without a completion, a CQ checks for an overrun. Arbitrary.
const idlePolls = 1024

// pollBatch is how many completions one call of ibv_poll_cq can fetch. Arbitrary.
const pollBatch = 64

// Poll fetches up to len(dst) completions. Each call into C fetches up to pollBatch.
//
// Implements: ibv_poll_cq(3).
func (q *cq) Poll(dst []verbs.WC) (int, error) {
	q.enter()
	defer q.leave()
	if err := q.usable(); err != nil {
		return 0, operr.Wrap("poll CQ", err)
	}
	return q.poll(dst)
}

// poll fetches completions until dst is full or the CQ is empty. It drops completions of
// closed queues.
func (q *cq) poll(dst []verbs.WC) (n int, err error) {
	for n < len(dst) {
		want := min(len(dst)-n, pollBatch)
		q.args.n = int32(want)
		q.call(fnPoll, unsafe.Pointer(&q.args), nil)
		found := min(int(q.args.found), want)
		if found < 0 && n == 0 {
			return 0, verbsError("poll CQ", q.args.found)
		}
		if found > 0 {
			n += q.settle(dst[n:], q.raw[:found])
		}
		if found < want {
			break
		}
	}
	if n == 0 {
		q.countIdle()
	}
	return n, nil
}

// usable returns an error if the CQ can not be polled.
func (q *cq) usable() error {
	if q.c == nil {
		return verbs.ErrClosed
	}
	if q.broken.Load() {
		return verbs.ErrOverrun
	}
	return nil
}

// countIdle counts a poll without a completion. On some devices, an overrun CQ looks
// empty. So after every idlePolls of these polls, countIdle fetches the asynchronous
// events, one of which may report the overrun.
func (q *cq) countIdle() {
	if q.idle++; q.idle%idlePolls == 0 {
		q.dev.async.fetchAll()
	}
}

// settle frees the places of completed requests, and stores the completions with the
// caller's IDs in dst. It drops completions of closed queues. It returns the number of
// completions in dst.
func (q *cq) settle(dst []verbs.WC, raw []rawWC) (n int) {
	for i := range raw {
		wc, r := &dst[n], &raw[i]
		tag, place := splitWRID(r.id)
		queue := q.dev.queues.find(tag)
		if queue == nil {
			continue
		}
		if q.dev.rxe {
			r.correctFlags()
		}
		r.convert(wc)
		if !queue.settle(place, wc) {
			continue
		}
		if wc.Status != verbs.StatusSuccess {
			queue.failed()
		}
		n++
	}
	return n
}
