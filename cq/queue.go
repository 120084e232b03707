package cq

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/slots"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Queue is one CQ of a Group, and the only one to poll it. The owner of the
// Group owns it.
type Queue struct {
	group *Group
	cq    verbs.CQ
	spins verbs.SpinPoller // cq, if it is one

	batch []verbs.WC // what the device writes into
	held  int        // completions in batch that Poll has still to return
	err   error      // the CQ failed, for good
	told  bool       // Poll has returned err

	armed   bool // until an event of this CQ is consumed
	unacked int  // events taken and not yet given back

	room   room
	cookie slots.Handle
	closed bool
}

// CQ is the completion queue, for making QPs and SRQs on it. It must not be
// polled, armed, resized or closed but by the Queue.
func (q *Queue) CQ() verbs.CQ { return q.cq }

// Poll returns the oldest completions, at most Config.Batch of them; as many
// mean that there may be more. The slice is the queue's, and valid until the
// next Poll of it or Arm of the group. After an error, which is a
// *verbs.OpError, the CQ is broken: Poll returns the error for good, once the
// completions before it are delivered. Other queues are not affected.
//
// Poll does not allocate.
func (q *Queue) Poll() ([]verbs.WC, error) {
	if q.held == 0 {
		q.fill(0)
	}
	return q.take()
}

// Spin is Poll, except that a CQ which CanSpin waits up to limit for the first
// completion, as verbs.SpinPoller says. It is for owners that would poll again
// at once, and have no other queue to poll meanwhile.
func (q *Queue) Spin(limit time.Duration) ([]verbs.WC, error) {
	if q.held == 0 {
		q.fill(limit)
	}
	return q.take()
}

// CanSpin reports whether Spin waits. The answer does not change.
func (q *Queue) CanSpin() bool { return q.spins != nil }

// take hands out what is held, or else the error.
func (q *Queue) take() ([]verbs.WC, error) {
	n := q.held
	if n == 0 && q.err != nil {
		q.told = true
		return nil, q.err
	}
	q.held = 0
	return q.batch[:n], nil
}

// fill asks the device for completions, when none are held, and waits for them
// up to limit if the CQ can.
func (q *Queue) fill(limit time.Duration) {
	if q.err != nil {
		return
	}
	var n int
	var err error
	if limit > 0 && q.spins != nil {
		n, err = q.spins.PollSpin(q.batch, limit)
	} else {
		n, err = q.cq.Poll(q.batch)
	}
	stats := &q.group.stats
	stats.Polls++
	if n == 0 && err == nil {
		stats.EmptyPolls++
		q.room.settle()
		return
	}
	q.filled(n, err)
}

func (q *Queue) filled(n int, err error) {
	if uint(n) > uint(len(q.batch)) {
		// A device that breaks the contract of Poll may have put anything there.
		n, err = 0, &verbs.ParamError{Field: "polled completions", Value: int64(n), Limit: int64(len(q.batch))}
	}
	if n < len(q.batch) {
		// ibv_poll_cq(3): fewer than asked for means that the CQ was emptied.
		q.room.settle()
	}
	q.held = n
	q.err = verbs.Wrap("poll CQ", err)
	q.group.stats.Completions += uint64(n)
}

// news reports whether the next Poll returns something, asking the device if
// need be.
func (q *Queue) news() bool {
	if q.held == 0 {
		q.fill(0)
	}
	return q.held > 0 || q.err != nil && !q.told
}

// Close destroys the CQ; completions not polled are lost. It returns
// verbs.ErrBusy as long as a QP or SRQ uses the CQ, and the queue works on. A
// second Close does nothing. Afterwards Poll and Reserve return verbs.ErrClosed.
func (q *Queue) Close() error {
	const op = "close CQ"
	g := q.group
	if q.closed {
		return nil
	}
	// Events still in the channel are taken while there is a CQ to give them
	// back to. If the channel fails its owner hears of it from Consume.
	_, _ = g.Consume()
	q.ack()
	if err := q.cq.Close(); err != nil {
		return verbs.Wrap(op, err)
	}
	g.forget(q)
	q.closed, q.held, q.err = true, 0, verbs.Wrap("poll CQ", verbs.ErrClosed)
	return nil
}
