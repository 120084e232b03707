//go:build rdmacore && cgo && linux

package rdmacore

// #cgo noescape rl_poll
// #cgo nocallback rl_poll
// #include "shim.h"
import "C"

import (
	"unsafe"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A CQ checks for an overrun after this number of polls without a completion. Arbitrary.
const idlePolls = 1024

// Poll fetches up to len(dst) completions with one call into C.
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

// poll fetches completions and drops those of closed queues. If dst was full and all its
// completions were dropped, poll() fetches again.
func (q *cq) poll(dst []verbs.WC) (n int, err error) {
	for {
		raw := 0
		if len(dst) > 0 {
			raw = int(C.rl_poll(q.handle(), (*C.struct_rl_wc)(unsafe.Pointer(&dst[0])), C.int(len(dst))))
		}
		if n, err = q.afterPoll(dst, raw); n > 0 || raw < len(dst) || raw == 0 {
			return n, err
		}
	}
}

// usable returns nil if the CQ can be polled, and otherwise the reason.
func (q *cq) usable() error {
	if q.c == nil {
		return verbs.ErrClosed
	}
	if q.broken.Load() {
		return verbs.ErrOverrun
	}
	return nil
}

// afterPoll handles the result of rl_poll. Sometimes it fetches asynchronous events,
// because on some devices an overrun CQ looks empty.
func (q *cq) afterPoll(dst []verbs.WC, n int) (int, error) {
	if n < 0 {
		return 0, verbsError("poll CQ", int32(n))
	}
	if n > 0 {
		return q.settle(dst[:n]), nil
	}
	if q.idle++; q.idle%idlePolls == 0 {
		q.dev.async.fetchAll()
	}
	return 0, nil
}

// settle frees the places of completed requests and sets the caller's IDs. It drops
// completions of closed queues, and returns how many completions remain.
func (q *cq) settle(wcs []verbs.WC) int {
	n := 0
	for i := range wcs {
		tag, place := splitWRID(wcs[i].ID)
		queue := q.dev.queues.find(tag)
		if queue == nil || !queue.settle(place, &wcs[i]) {
			continue
		}
		if wcs[i].Status != verbs.StatusSuccess {
			queue.failed()
		}
		if n != i {
			wcs[n] = wcs[i]
		}
		n++
	}
	return n
}
