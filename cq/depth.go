package cq

import (
	"fmt"
	"math"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Reserve makes sure that the CQ has room for n more completions. If necessary it
// resizes the CQ. Call Reserve before you create a QP.
//
// If the QP sends on this CQ, n includes the MaxSendWR that the program requests. If the QP
// receives on this CQ, n includes the MaxRecvWR. The receive buffers of an SRQ are reserved
// only once, with the SRQ's MaxWR. The program never has more requests outstanding than it
// has reserved, even if the device has rounded a queue up.
//
// The error is a *verbs.OpError, and then nothing is reserved. If n is negative, or the CQ
// can not become large enough, the error wraps a *verbs.ParamError.
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

// Release returns n reserved places. Call Release after the QP was closed. The CQ may
// still hold completions of the QP, so the places become free only when a later Poll
// leaves the CQ empty. If n is less than 1 or more than is reserved, Release does nothing.
func (q *Queue) Release(n int) { q.reserved.release(n) }

// Room returns the number of places that Reserve could still reserve, if necessary with
// a resize. It returns 0 after the CQ has failed, and after Close.
func (q *Queue) Room() int {
	if q.err != nil {
		return 0
	}
	return q.maxDepth() - q.reserved.total
}

// maxDepth returns the largest depth that the CQ can have.
func (q *Queue) maxDepth() int {
	if q.group.dev.Caps().ResizeCQ {
		return q.group.dev.Attr().MaxCQE
	}
	return q.cq.Depth()
}

// grow resizes the CQ for n more completions. It at least doubles the depth if the
// device allows that, to save later resizes.
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

// tooDeep returns the error if n more places do not fit into the CQ.
func tooDeep(reserved, n, limit int) error {
	total := reserved + min(n, math.MaxInt-reserved)
	return &verbs.ParamError{Field: "completions", Value: int64(total), Limit: int64(limit)}
}
