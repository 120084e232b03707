package cq

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/slots"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Queue is one CQ of a Group. All polls of the CQ go through the Queue. The owner of
// the Group owns it.
type Queue struct {
	group   *Group
	cq      verbs.CQ
	spinner verbs.SpinPoller // the CQ if it is a verbs.SpinPoller, else nil

	batch       []verbs.WC // buffer for the device's completions
	held        int        // completions in batch that Poll has not returned yet
	err         error      // first failure of the CQ; it is permanent
	errReturned bool       // Poll has returned err

	armed   bool // Arm has armed the CQ and no event of it was consumed since
	unacked int  // events that were taken and not acknowledged

	reserved reservations
	cookie   slots.Handle
	closed   bool
}

// CQ returns the completion queue, for creating QPs and SRQs that use it. Only the Queue
// may poll, arm, resize and close it.
func (q *Queue) CQ() verbs.CQ { return q.cq }

// Poll returns the oldest completions, at most Config.Batch of them. Exactly
// Config.Batch completions mean that there may be more. The queue owns the slice, which
// is valid until the next Poll or Spin of the queue or Arm of the group.
//
// The error is a *verbs.OpError. It means that the CQ is unusable; completions that came
// with it are returned first, and from then on Poll returns the error. Other queues are
// not affected. Source: ibv_poll_cq(3).
//
// Poll does not allocate.
func (q *Queue) Poll() ([]verbs.WC, error) {
	if q.held == 0 {
		q.fill(0)
	}
	return q.takeHeld()
}

// Spin does the same as Poll, but if CanSpin is true and there is no completion, it waits
// for a completion, at most for the duration limit, as verbs.SpinPoller does. It is for
// an owner that would poll again at once and has no other queue to poll.
func (q *Queue) Spin(limit time.Duration) ([]verbs.WC, error) {
	if q.held == 0 {
		q.fill(limit)
	}
	return q.takeHeld()
}

// CanSpin reports whether the CQ can wait in Spin. The result never changes.
func (q *Queue) CanSpin() bool { return q.spinner != nil }

// takeHeld returns the completions that are held, or else the error.
func (q *Queue) takeHeld() ([]verbs.WC, error) {
	n := q.held
	if n == 0 && q.err != nil {
		q.errReturned = true
		return nil, q.err
	}
	q.held = 0
	return q.batch[:n], nil
}

// fill polls the device. It requires that no completion is held. If the parameter limit
// is positive and the CQ can spin, fill waits at most that long for a completion.
func (q *Queue) fill(limit time.Duration) {
	if q.err != nil {
		return
	}
	var n int
	var err error
	if limit > 0 && q.spinner != nil {
		n, err = q.spinner.PollSpin(q.batch, limit)
	} else {
		n, err = q.cq.Poll(q.batch)
	}
	stats := &q.group.stats
	stats.Polls++
	if n == 0 && err == nil {
		stats.EmptyPolls++
		q.reserved.settle()
		return
	}
	q.filled(n, err)
}

// filled stores the result of a poll that returned completions or an error.
func (q *Queue) filled(n int, err error) {
	if uint(n) > uint(len(q.batch)) {
		// The device broke the contract of Poll; the entries may have any content.
		n, err = 0, &verbs.ParamError{Field: "polled completions", Value: int64(n), Limit: int64(len(q.batch))}
	}
	if n < len(q.batch) {
		// Fewer than asked for means that the CQ was empty (ibv_poll_cq(3)).
		q.reserved.settle()
	}
	q.held = n
	q.err = operr.Wrap("poll CQ", err)
	q.group.stats.Completions += uint64(n)
}

// hasResult reports whether the next Poll returns a completion or a new error. It polls
// the device if no completion is held.
func (q *Queue) hasResult() bool {
	if q.held == 0 {
		q.fill(0)
	}
	return q.held > 0 || q.err != nil && !q.errReturned
}

// Close destroys the CQ. Completions that were not polled are lost. It returns
// verbs.ErrBusy while a QP or SRQ uses the CQ, and the queue continues to work. A second
// Close does nothing. After Close, Poll and Reserve return verbs.ErrClosed. Source:
// ibv_destroy_cq(3).
func (q *Queue) Close() error {
	const op = "close CQ"
	g := q.group
	if q.closed {
		return nil
	}
	// The CQ can only be destroyed after all its events are acknowledged, so the events
	// that are still in the channel are taken first. An error of the channel is returned
	// again by the owner's next Consume.
	_, _ = g.Consume()
	q.ack()
	if err := q.cq.Close(); err != nil {
		return operr.Wrap(op, err)
	}
	g.remove(q)
	q.closed, q.held, q.err = true, 0, operr.Wrap("poll CQ", verbs.ErrClosed)
	return nil
}
