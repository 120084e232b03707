package cq

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/slots"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Queue is one CQ of a Group. No other code polls that CQ. The Queue belongs to the
// owner of the Group.
type Queue struct {
	group *Group
	cq    verbs.CQ

	batch []verbs.WC // buffer for completions from the device
	// The next two fields are nil unless Config.Inline is true and the CQ is an
	// InlinePoller.
	inline verbs.InlinePoller // the CQ
	data   []verbs.InlineData // data[i] is memory for the message of completion batch[i]

	held        int   // number of completions in the field batch that Poll has not returned yet
	err         error // the first error of the CQ, which is permanent
	errReturned bool  // true after Poll has returned err for the first time
	emptied     bool  // result of Emptied

	// true after the CQ was armed, until its event is consumed or Rescued is called
	armed   bool
	unacked int // number of events that were taken and not acknowledged

	reserved reservations
	cookie   slots.Handle
	closed   bool
}

// CQ returns the completion queue for creating QPs and SRQs. The caller must not poll,
// arm, resize or close it: the Queue does that.
func (q *Queue) CQ() verbs.CQ { return q.cq }

// Poll returns the oldest completions, at most Config.Batch. After a full batch there
// may be more. The slice is valid until the next Poll of the Queue or Arm of the Group.
// Poll does not allocate memory. Source: ibv_poll_cq(3).
//
// The error, a *verbs.OpError, means that the CQ is unusable. All later Polls return the
// same error.
func (q *Queue) Poll() ([]verbs.WC, error) {
	if q.held == 0 {
		q.fill()
	} else {
		// Arm has polled these completions. The device may have added more, so the CQ
		// may not be empty.
		q.emptied = false
	}
	return q.takeHeld()
}

// Emptied reports whether the last Poll has left the CQ empty. It returns false if the
// Poll only returned completions found by Arm. Only the owner may call Emptied.
func (q *Queue) Emptied() bool { return q.emptied }

// InlineData returns the message of completion i of the last Poll. The completion must
// have the flag WCInline. The memory belongs to the Queue and is valid as long as the
// completions.
func (q *Queue) InlineData(i int) *verbs.InlineData { return &q.data[i] }

// takeHeld returns the completions that are in batch, or the error if there are none.
func (q *Queue) takeHeld() ([]verbs.WC, error) {
	n := q.held
	if n == 0 && q.err != nil {
		q.errReturned = true
		return nil, q.err
	}
	q.held = 0
	return q.batch[:n], nil
}

// fill polls the device. There must be no completions in batch.
func (q *Queue) fill() {
	q.emptied = true
	if q.err != nil {
		return
	}
	var n int
	var err error
	if q.inline != nil {
		n, err = q.inline.PollInline(q.batch, q.data)
	} else {
		n, err = q.cq.Poll(q.batch)
	}
	q.group.stats.Polls++
	if n == 0 && err == nil {
		q.group.stats.EmptyPolls++
		q.reserved.settle()
		return
	}
	q.filled(n, err)
}

// filled stores the result of a poll that has returned completions or an error.
func (q *Queue) filled(n int, err error) {
	if uint(n) > uint(len(q.batch)) {
		// The device has returned an impossible number, so the completions in batch may
		// be wrong too.
		n, err = 0, &verbs.ParamError{Field: "polled completions", Value: int64(n), Limit: int64(len(q.batch))}
	}
	if n < len(q.batch) {
		// The batch is not full, so the CQ is empty (ibv_poll_cq(3)). The places that
		// were released before become free.
		q.reserved.settle()
	}
	q.emptied = n < len(q.batch)
	q.held = n
	q.err = operr.Wrap("poll CQ", err)
	q.group.stats.Completions += uint64(n)
}

// hasResult reports whether Poll has a completion or an error to return. If batch is
// empty, hasResult polls the device first.
func (q *Queue) hasResult() bool {
	if q.held == 0 {
		q.fill()
	}
	return q.held > 0 || q.err != nil && !q.errReturned
}

// arm arms the CQ, unless it counts as armed or has failed.
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

// eventArrived records that the CQ is not armed any more. It acknowledges the events
// when Config.AckEvery of them have arrived.
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

// ack acknowledges all events of the CQ that were taken and not acknowledged. Source:
// ibv_ack_cq_events(3).
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
	// Close takes the events first, because a CQ with unacknowledged events can not be
	// destroyed. An error of Consume is ignored here, because the owner's next Consume
	// also fails.
	_, _ = g.Consume()
	q.ack()
	if err := q.cq.Close(); err != nil {
		return operr.Wrap(op, err)
	}
	g.remove(q)
	q.closed, q.held, q.err = true, 0, operr.Wrap("poll CQ", verbs.ErrClosed)
	return nil
}
