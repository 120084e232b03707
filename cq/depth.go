package cq

import (
	"fmt"
	"math"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Reserve sets aside n places for the completions of a new QP. The owner calls Reserve
// before it creates the QP. The parameter n is the number of completions that the QP can
// have outstanding at a time: its MaxSendWR if it sends on this CQ, plus its MaxRecvWR
// if it receives on this CQ. An SRQ counts once, with its MaxWR.
//
// If the CQ is too small, Reserve resizes it. The number of reserved places never
// exceeds the depth of the CQ, so the CQ can not be overrun.
//
// The error is a *verbs.OpError. If there are not enough places, the *verbs.OpError
// wraps a *verbs.ParamError with the field "completions". The Value of the
// *verbs.ParamError is the number of completions that the CQ would have to hold, and its
// Limit is the number that the CQ can hold. If the device has failed to resize the CQ,
// the device's error is wrapped too. After an error nothing is reserved and the CQ
// continues to work.
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

// Release returns n reserved places. The owner calls it after it has closed the QP.
// Completions of the QP may still be in the CQ, so the places become free only when a
// Poll has found the CQ empty. If n is negative or larger than the number of reserved
// places, Release does nothing: a place that stays reserved does no harm, but a place
// that becomes free too early could let the CQ be overrun.
func (q *Queue) Release(n int) { q.reserved.release(n) }

// Room returns the number of places that Reserve could set aside now. It includes the
// places that resizing the CQ to the device's limit would add. It is 0 after the CQ has
// failed, and after Close.
func (q *Queue) Room() int {
	if q.err != nil {
		return 0
	}
	return q.maxDepth() - q.reserved.total
}

// maxDepth returns the largest depth that the CQ can have. It is the device's limit if
// the device can resize CQs, and otherwise the present depth.
func (q *Queue) maxDepth() int {
	if q.group.dev.Caps().ResizeCQ {
		return q.group.dev.Attr().MaxCQE
	}
	return q.cq.Depth()
}

// grow resizes the CQ so that it has room for n more completions. Where the device's
// limit allows, it at least doubles the depth, so that many small reservations need few
// resizes.
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

// tooDeep returns the error for a reservation that fails because the CQ is too small.
// The parameter reserved is the number of places that are reserved already. The failed
// reservation was for n places. The parameter limit is the number of completions that
// the CQ can hold.
func tooDeep(reserved, n, limit int) error {
	total := reserved + min(n, math.MaxInt-reserved)
	return &verbs.ParamError{Field: "completions", Value: int64(total), Limit: int64(limit)}
}
