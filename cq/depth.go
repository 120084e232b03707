package cq

import (
	"fmt"
	"math"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// reservations counts the reserved places of a CQ. A place holds one completion.
type reservations struct {
	total    int // reserved places, including draining
	draining int // released places that may still hold completions
}

// release starts to release n places. They become free when the CQ has been seen empty.
func (r *reservations) release(n int) {
	if n > 0 && n <= r.total-r.draining {
		r.draining += n
	}
}

// settle frees the released places. The caller has seen the CQ empty.
func (r *reservations) settle() {
	r.total -= r.draining
	r.draining = 0
}

// Reserve sets aside n places for the completions that a new QP can have outstanding at a
// time, and is called before the QP is created. For a QP that sends on this CQ, n
// includes its MaxSendWR. For a QP that receives on this CQ, n includes its MaxRecvWR. An
// SRQ counts once, with its MaxWR. If the CQ is too small, it is resized. The reserved
// places never exceed the depth of the CQ, so that it can not be overrun.
//
// The error is a *verbs.OpError. If there are not enough places, it wraps a
// *verbs.ParamError with field "completions". Value is then the number of completions
// that the CQ would have to hold, and Limit the number that it can hold. An error of the
// device is wrapped in addition. After an error nothing is reserved and the CQ continues
// to work.
func (q *Queue) Reserve(n int) error {
	const op = "reserve completions"
	if q.err != nil {
		return operr.Wrap(op, q.err)
	}
	if n < 0 {
		return operr.Wrap(op, negative("completions", n))
	}
	depth := q.cq.Depth()
	if n > depth-q.reserved.total {
		if err := q.grow(n, depth); err != nil {
			q.group.stats.Refusals++
			return operr.Wrap(op, err)
		}
	}
	q.reserved.total += n
	return nil
}

// Release returns n places after a QP has been closed. Completions of the QP may still
// be in the CQ, so the places become free when a Poll has seen the CQ empty. An n that
// is negative or larger than the number of reserved places is ignored: a place that
// stays reserved is harmless, a place that is free too early can overrun the CQ.
func (q *Queue) Release(n int) { q.reserved.release(n) }

// Room returns the number of places that Reserve can set aside now. It includes the
// places that Reserve gains by resizing the CQ to the device's limit. It is 0 after the
// CQ has failed or is closed.
func (q *Queue) Room() int {
	if q.err != nil {
		return 0
	}
	return q.maxDepth() - q.reserved.total
}

// maxDepth returns the largest possible depth of the CQ. It is the device's limit if the
// device can resize CQs.
func (q *Queue) maxDepth() int {
	if q.group.dev.Caps().ResizeCQ {
		return q.group.dev.Attr().MaxCQE
	}
	return q.cq.Depth()
}

// grow resizes the CQ so that it has room for n more completions. It doubles the depth if
// the device allows that, so that many small reservations need few resizes.
func (q *Queue) grow(n, depth int) error {
	most := q.maxDepth()
	if n > most-q.reserved.total {
		return tooDeep(q.reserved.total, n, most)
	}
	need := q.reserved.total + n
	if err := q.cq.Resize(min(max(need, 2*depth), most)); err != nil {
		return fmt.Errorf("%w: %w", tooDeep(q.reserved.total, n, depth), err)
	}
	q.group.stats.Resizes++
	if depth = q.cq.Depth(); depth < need {
		return tooDeep(q.reserved.total, n, depth)
	}
	return nil
}

// tooDeep returns the error for a reservation of n places when other reservations have
// taken places already and the CQ can hold limit completions.
func tooDeep(taken, n, limit int) error {
	total := taken + min(n, math.MaxInt-taken)
	return &verbs.ParamError{Field: "completions", Value: int64(total), Limit: int64(limit)}
}
