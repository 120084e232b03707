//go:build rdmacore && cgo && linux

package rdmacore

// #cgo noescape rl_poll
// #cgo nocallback rl_poll
// #cgo noescape rl_poll_spin
// #cgo nocallback rl_poll_spin
// #include "shim.h"
import "C"

import (
	"time"
	"unsafe"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

var _ verbs.SpinPoller = (*cq)(nil)

// idlePolls is the number of polls without a completion after which a CQ asks the device
// whether it was overrun. The number is arbitrary.
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

// poll polls again while all completions that it got were dropped and there may be more.
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

// PollSpin does the same as Poll, but waits up to limit for the first completion without
// giving up the processor. The wait is in C, where it does not delay the Go scheduler or
// garbage collection. The limit should be about ten microseconds.
//
// Implements: ibv_poll_cq(3).
func (q *cq) PollSpin(dst []verbs.WC, limit time.Duration) (int, error) {
	q.enter()
	defer q.leave()
	if err := q.usable(); err != nil {
		return 0, operr.Wrap("poll CQ", err)
	}
	if len(dst) == 0 {
		return q.afterPoll(dst, 0)
	}
	raw := C.rl_poll_spin(q.handle(), (*C.struct_rl_wc)(unsafe.Pointer(&dst[0])), C.int(len(dst)), C.int64_t(limit))
	if n, err := q.afterPoll(dst, int(raw)); n > 0 || int(raw) < len(dst) {
		return n, err
	}
	return q.poll(dst)
}

// usable returns nil, or the reason why the queue can not be polled.
func (q *cq) usable() error {
	if q.c == nil {
		return verbs.ErrClosed
	}
	if q.broken.Load() {
		return verbs.ErrOverrun
	}
	return nil
}

// afterPoll handles the result of a poll. A queue that was overrun may look empty for
// ever, so after every idlePolls empty polls it fetches the asynchronous events.
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

// settle returns the places of completed requests and sets the caller's IDs in the
// completions. It removes completions of closed queues.
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
