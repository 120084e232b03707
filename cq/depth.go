package cq

import (
	"fmt"
	"math"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Reserve sets aside n places for the completions of a new QP, before the QP is created.
// If necessary it resizes the CQ, so reserved completions never overrun it. The number n
// is the QP's MaxSendWR if it sends on this CQ, plus its MaxRecvWR if it receives on
// this CQ.
// For a QP with an SRQ, MaxRecvWR does not count. Instead the owner calls Reserve once
// for each SRQ, with the SRQ's MaxWR.
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

// Release returns n reserved places after the QP was closed. The CQ may still hold
// completions of this QP. The places therefore become free only when a later Poll has
// left the CQ empty. If n is invalid, Release does nothing.
func (q *Queue) Release(n int) { q.reserved.release(n) }

// Room returns the number of places that Reserve could set aside now, including those
// that a resize would add. It is 0 after the CQ has failed, and after Close.
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

// tooDeep returns the error for a reservation that does not fit. The parameter n is the
// number of places to reserve. The parameter reserved is the number of places that were
// reserved before. The parameter limit is the number of completions that fit in the CQ.
func tooDeep(reserved, n, limit int) error {
	total := reserved + min(n, math.MaxInt-reserved)
	return &verbs.ParamError{Field: "completions", Value: int64(total), Limit: int64(limit)}
}
