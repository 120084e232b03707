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

	"github.com/rdmaloop/rdmaloop/verbs"
)

var _ verbs.SpinPoller = (*cq)(nil)

// idlePolls is after how many polls in vain a CQ asks whether it was overrun.
const idlePolls = 1024

// Poll fetches completions, as many as fit in one crossing.
//
// Implements: ibv_poll_cq(3).
func (q *cq) Poll(dst []verbs.WC) (int, error) {
	q.enter()
	defer q.leave()
	if err := q.usable(); err != nil {
		return 0, verbs.Wrap("poll CQ", err)
	}
	return q.poll(dst)
}

// poll goes on as long as the queue is full of completions that nobody wants.
func (q *cq) poll(dst []verbs.WC) (n int, err error) {
	for {
		raw := 0
		if len(dst) > 0 {
			raw = int(C.rl_poll(q.handle(), (*C.struct_rl_wc)(unsafe.Pointer(&dst[0])), C.int(len(dst))))
		}
		if n, err = q.found(dst, raw); n > 0 || raw < len(dst) || raw == 0 {
			return n, err
		}
	}
}

// PollSpin is Poll, except that it waits up to limit for the first completion,
// without giving up the processor. The waiting is done in C, where it is no
// hindrance to the Go scheduler or to garbage collection; a limit of some ten
// microseconds is right.
//
// Implements: ibv_poll_cq(3).
func (q *cq) PollSpin(dst []verbs.WC, limit time.Duration) (int, error) {
	q.enter()
	defer q.leave()
	if err := q.usable(); err != nil {
		return 0, verbs.Wrap("poll CQ", err)
	}
	if len(dst) == 0 {
		return q.found(dst, 0)
	}
	raw := C.rl_poll_spin(q.handle(), (*C.struct_rl_wc)(unsafe.Pointer(&dst[0])), C.int(len(dst)), C.int64_t(limit))
	if n, err := q.found(dst, int(raw)); n > 0 || int(raw) < len(dst) {
		return n, err
	}
	return q.poll(dst)
}

// usable returns why the queue can not be polled.
func (q *cq) usable() error {
	if q.c == nil {
		return verbs.ErrClosed
	}
	if q.broken.Load() {
		return verbs.ErrOverrun
	}
	return nil
}

// found settles what came, or notes that nothing did. A queue that was overrun
// may look empty for ever, so that from time to time somebody has to ask.
func (q *cq) found(dst []verbs.WC, n int) (int, error) {
	if n < 0 {
		return 0, verbsError("poll CQ", int32(n))
	}
	if n > 0 {
		return q.settle(dst[:n]), nil
	}
	if q.idle++; q.idle%idlePolls == 0 {
		q.dev.async.look()
	}
	return 0, nil
}

// settle gives the places of completed requests back, and the completions the
// ids that the caller knows. Completions of queues that are gone are left out.
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
