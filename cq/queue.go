package cq

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/slots"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Queue is one CQ of a Group. Only the Queue polls this CQ. The owner of the Group
// also owns the Queue.
type Queue struct {
	group *Group
	cq    verbs.CQ

	batch []verbs.WC // completions from the device
	// inline message of each completion in batch; nil if they are not wanted or not supported
	data []verbs.InlineData

	held        int   // number of completions in batch that Poll has not returned yet
	err         error // first error of the CQ; it is permanent
	errReturned bool  // true if Poll has returned err to its caller
	emptied     bool  // true if the last poll has left the CQ empty

	// true if the CQ was armed and its event was not consumed yet
	armed   bool
	unacked int // number of events that are not acknowledged

	reserved reservations
	cookie   slots.Handle
	closed   bool
}

// CQ returns the completion queue, for creating QPs and SRQs. The Queue polls, arms,
// resizes and closes it; callers must not do that.
func (q *Queue) CQ() verbs.CQ { return q.cq }

// Poll returns the oldest completions, at most Config.Batch. After a full batch there
// may be more. The slice is valid until the next Poll of the Queue, or Arm or Wait of the
// Group.
// Poll does not allocate memory. Source: ibv_poll_cq(3).
//
// After an error the CQ is unusable. The error is a *verbs.OpError, and all later Polls
// return the same error.
func (q *Queue) Poll() ([]verbs.WC, error) {
	if q.held == 0 {
		q.fill()
	} else {
		// Arm found these completions. Meanwhile the device may have added more.
		q.emptied = false
	}
	return q.takeHeld()
}

// Emptied reports whether the last Poll has left the CQ empty. It returns false if that
// Poll only returned completions that Arm had found. Only the owner may call Emptied.
func (q *Queue) Emptied() bool { return q.emptied }

// InlineData returns the message of completion i of the last Poll. The number i must be an
// index of the slice that Poll returned, and the completion must have the flag WCInline. The
// memory belongs to the Queue. It is valid as long as the completions are.
func (q *Queue) InlineData(i int) *verbs.InlineData { return &q.data[i] }

// takeHeld returns the completions in batch. If there are none, it returns the error.
func (q *Queue) takeHeld() ([]verbs.WC, error) {
	n := q.held
	if n == 0 && q.err != nil {
		q.errReturned = true
		return nil, q.err
	}
	q.held = 0
	return q.batch[:n], nil
}

// fill polls the device and stores the result. The batch must be empty.
func (q *Queue) fill() {
	q.emptied = true
	if q.err != nil {
		return
	}
	n, err := q.cq.Poll(q.batch)
	q.group.stats.Polls++
	if n == 0 && err == nil {
		q.group.stats.EmptyPolls++
		q.reserved.settle()
		return
	}
	q.filled(n, err)
}

// filled stores the result of a poll that found something.
func (q *Queue) filled(n int, err error) {
	if uint(n) > uint(len(q.batch)) {
		// The device has returned an impossible number. So its completions may be wrong
		// too.
		n, err = 0, &verbs.ParamError{Field: "polled completions", Value: int64(n), Limit: int64(len(q.batch)), Reason: "the device has returned an impossible number"}
	}
	if n < len(q.batch) {
		// The batch is not full, so the CQ is empty (ibv_poll_cq(3)).
		q.reserved.settle()
	}
	q.emptied = n < len(q.batch)
	q.held = n
	q.err = operr.Wrap("poll CQ", err)
	q.group.stats.Completions += uint64(n)
}

// hasResult reports whether Poll has something to return. It polls the device if
// necessary.
func (q *Queue) hasResult() bool {
	if q.held == 0 {
		q.fill()
	}
	return q.held > 0 || q.err != nil && !q.errReturned
}

// arm arms the CQ, unless the CQ is armed or has failed.
func (q *Queue) arm() error {
	if q.armed || q.err != nil {
		return nil
	}
	if err := q.cq.Arm(q.group.config.SolicitedOnly); err != nil {
		return operr.Wrap("arm CQ", err)
	}
	q.armed = true
	q.group.stats.Arms++
	return nil
}

// eventArrived handles an event of this CQ. Events are acknowledged in groups of
// Config.AckEvery.
func (q *Queue) eventArrived() {
	if !q.armed {
		q.group.stats.UnaskedEvents++
	}
	q.armed = false
	q.unacked++
	if q.unacked >= q.group.config.AckEvery {
		q.ack()
	}
}

// ack acknowledges all events that were taken. Source: ibv_ack_cq_events(3).
func (q *Queue) ack() {
	if q.unacked == 0 {
		return
	}
	q.cq.AckEvents(q.unacked)
	q.group.stats.Acks++
	q.group.stats.AckedEvents += uint64(q.unacked)
	q.unacked = 0
}

// Close destroys the CQ and its completions. While a QP or SRQ uses the CQ, Close
// returns verbs.ErrBusy, and the queue continues to work. After Close, Poll and Reserve
// return verbs.ErrClosed. A second Close does nothing. Source: ibv_destroy_cq(3).
func (q *Queue) Close() error {
	const op = "close CQ"
	g := q.group
	if q.closed {
		return nil
	}
	// A CQ can not be destroyed while events are not acknowledged, so Close takes them
	// all first. The owner sees an error at the next Consume.
	_, _ = g.Consume()
	q.ack()
	if err := q.cq.Close(); err != nil {
		return operr.Wrap(op, err)
	}
	g.remove(q)
	q.closed, q.held, q.err = true, 0, operr.Wrap("poll CQ", verbs.ErrClosed)
	return nil
}
