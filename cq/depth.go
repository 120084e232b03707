package cq

import (
	"fmt"
	"math"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Reserve sets aside n places for the completions of a new QP, before the QP is created.
// If necessary Reserve resizes the CQ.
//
// The number n is the QP's MaxSendWR if the QP sends on this CQ, plus the QP's MaxRecvWR
// if the QP receives on this CQ. For receives from an SRQ, the owner instead calls
// Reserve once, with the SRQ's MaxWR.
//
// After an error, a *verbs.OpError, nothing is reserved. If the CQ can not become deep
// enough, the error wraps a *verbs.ParamError.
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

// Release returns n reserved places after the QP was closed. The places become free only
// when a later Poll has left the CQ empty, because the CQ may still hold completions of
// the QP. If n is invalid, Release does nothing.
func (q *Queue) Release(n int) { q.reserved.release(n) }

// Room returns the number of places that Reserve could set aside, if necessary with a
// resize. After a failure of the CQ, and after Close, Room returns 0.
func (q *Queue) Room() int {
	if q.err != nil {
		return 0
	}
	return q.maxDepth() - q.reserved.total
}

// maxDepth returns the device's limit if the device can resize CQs, and otherwise the
// present depth.
func (q *Queue) maxDepth() int {
	if q.group.dev.Caps().ResizeCQ {
		return q.group.dev.Attr().MaxCQE
	}
	return q.cq.Depth()
}

// grow resizes the CQ for n more completions. It at least doubles the depth, up to the
// device's limit, to save later resizes.
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

// tooDeep returns the error for a CQ that has no room for n more reserved places.
func tooDeep(reserved, n, limit int) error {
	total := reserved + min(n, math.MaxInt-reserved)
	return &verbs.ParamError{Field: "completions", Value: int64(total), Limit: int64(limit)}
}
