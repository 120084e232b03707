package cq

import (
	"fmt"
	"math"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// room counts the places of a CQ that are spoken for.
type room struct {
	taken   int // reserved, and those leaving
	leaving int // released, but completions may still lie there
}

// release takes back n places; they are free once the CQ has been seen empty.
func (r *room) release(n int) {
	if n > 0 && n <= r.taken-r.leaving {
		r.leaving += n
	}
}

// settle frees what is leaving. The CQ is empty now.
func (r *room) settle() {
	r.taken -= r.leaving
	r.leaving = 0
}

// Reserve sets aside n places, for the completions that a QP about to be made
// can have outstanding at a time: its MaxSendWR, if it sends on this CQ, plus
// its MaxRecvWR, if it receives here; an SRQ counts once, with its MaxWR. When
// the CQ is too small it is resized. What is reserved never exceeds its depth,
// so it can not be overrun.
//
// The error is a *verbs.OpError. It wraps a *verbs.ParamError with field
// "completions" when the places can not be had; Value is what the CQ would have
// to hold, Limit what it can. An error of the device is wrapped beside it.
// Nothing is reserved then, and the CQ works on.
func (q *Queue) Reserve(n int) error {
	const op = "reserve completions"
	if q.err != nil {
		return verbs.Wrap(op, q.err)
	}
	if n < 0 {
		return verbs.Wrap(op, negative("completions", n))
	}
	depth := q.cq.Depth()
	if n > depth-q.room.taken {
		if err := q.grow(n, depth); err != nil {
			q.group.stats.Refusals++
			return verbs.Wrap(op, err)
		}
	}
	q.room.taken += n
	return nil
}

// Release gives back n places of a QP that has been closed. They are free for
// others once a Poll has seen the CQ empty, for completions of the QP may still
// lie in it. A number that is not reserved is ignored: a CQ refused is better
// than one overrun.
func (q *Queue) Release(n int) { q.room.release(n) }

// Room returns how many places Reserve can set aside now, including the places that
// Reserve gains by resizing the CQ to the device's limit. It is 0 once the CQ has
// failed or is closed.
func (q *Queue) Room() int {
	if q.err != nil {
		return 0
	}
	return q.most() - q.room.taken
}

// most returns how many completions the CQ can hold at most, after a resize where the
// device supports resizing.
func (q *Queue) most() int {
	if q.group.dev.Caps().ResizeCQ {
		return q.group.dev.Attr().MaxCQE
	}
	return q.cq.Depth()
}

// grow makes place for n more completions, doubling the depth where it can, so
// that many small reservations make few resizes.
func (q *Queue) grow(n, depth int) error {
	most := q.most()
	if n > most-q.room.taken {
		return noRoom(q.room.taken, n, most)
	}
	need := q.room.taken + n
	if err := q.cq.Resize(min(max(need, 2*depth), most)); err != nil {
		return fmt.Errorf("%w: %w", noRoom(q.room.taken, n, depth), err)
	}
	q.group.stats.Resizes++
	if depth = q.cq.Depth(); depth < need {
		return noRoom(q.room.taken, n, depth)
	}
	return nil
}

func noRoom(taken, n, limit int) error {
	total := taken + min(n, math.MaxInt-taken)
	return &verbs.ParamError{Field: "completions", Value: int64(total), Limit: int64(limit)}
}
