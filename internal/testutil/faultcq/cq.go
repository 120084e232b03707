package faultcq

import "github.com/rdmaloop/rdmaloop/verbs"

// A CQ is a completion queue. Tests add completions to it with Complete.
type CQ struct {
	dev     *Device
	channel *Channel
	cookie  uint64
	depth   int
	queue   []verbs.WC // Completions that have not been polled, oldest first.

	armed bool
	// True if the CQ is armed for solicited events only: then only the completion of a
	// message with the solicited event flag, or a failed completion, raises an event.
	solicited bool
	lost      bool // True if an event was dropped after the CQ was last armed.

	// taken is the number of events of this CQ that Next has returned. acked is the
	// number of these events that were acknowledged.
	taken, acked int
	// Number of queue pairs that use the CQ. Use changes this number.
	users int

	// The errors that Poll, Arm and Resize return, or nil for no error.
	failPoll, failArm, failResize error

	// If this number is greater than 0, Poll returns len(dst) plus this number, as a
	// broken driver might do.
	overReport int
	closed     bool
}

// Complete adds a completion. If the CQ has no room for it, the CQ becomes unusable: from
// then on Poll returns verbs.ErrOverrun.
func (q *CQ) Complete(wc verbs.WC) { q.add(wc, false) }

// CompleteSolicited adds a completion of a receive. The received message had the
// solicited event flag.
func (q *CQ) CompleteSolicited(wc verbs.WC) { q.add(wc, true) }

func (q *CQ) add(wc verbs.WC, solicited bool) {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	if len(q.queue) == q.depth {
		q.failPoll = verbs.ErrOverrun
		return
	}
	q.queue = append(q.queue, wc)
	if q.armed && (!q.solicited || solicited || wc.Status != verbs.StatusSuccess) {
		q.fire()
	}
}

// fire raises an event and disarms the CQ. The CQ must be armed.
func (q *CQ) fire() {
	q.armed = false
	q.channel.raise(q)
}

// FailPoll makes Poll return err until FailPoll is called with nil.
func (q *CQ) FailPoll(err error) { q.setFailure(&q.failPoll, err) }

// FailArm makes Arm return err until FailArm is called with nil.
func (q *CQ) FailArm(err error) { q.setFailure(&q.failArm, err) }

// FailResize makes Resize return err until FailResize is called with nil.
func (q *CQ) FailResize(err error) { q.setFailure(&q.failResize, err) }

func (q *CQ) setFailure(which *error, err error) {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	*which = err
}

// OverReport makes Poll return a number that exceeds the length of its slice by n.
func (q *CQ) OverReport(n int) {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	q.overReport = n
}

// Use adds n to the number of queue pairs that use the CQ. A CQ cannot be closed while
// queue pairs use it.
func (q *CQ) Use(n int) {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	q.users += n
}

// Waiting returns the number of completions that have not been polled.
func (q *CQ) Waiting() int {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	return len(q.queue)
}

// Armed reports whether the next completion raises an event.
func (q *CQ) Armed() bool {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	return q.armed
}

// EventDue reports whether the channel has an event of the CQ, or will get one after a
// delay.
func (q *CQ) EventDue() bool {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	return q.channel.due(q)
}

// EventLost reports whether the device has dropped an event after the CQ was last armed.
func (q *CQ) EventLost() bool {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	return q.lost
}

// Events returns how many events of the CQ Next has returned, and how many of these were
// acknowledged.
func (q *CQ) Events() (taken, acked int) {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	return q.taken, q.acked
}

// Poll moves the oldest completions from the CQ to dst, and returns their number. If
// FailPoll has set an error, Poll only returns this error. If OverReport was called,
// Poll only returns a number that is greater than len(dst). Poll is part of verbs.CQ.
func (q *CQ) Poll(dst []verbs.WC) (int, error) {
	q.dev.enter()
	defer q.dev.leave()
	switch {
	case q.closed:
		return 0, verbs.ErrClosed
	case q.failPoll != nil:
		return 0, q.failPoll
	case q.overReport > 0:
		return len(dst) + q.overReport, nil
	}
	n := copy(dst, q.queue)
	q.queue = append(q.queue[:0], q.queue[n:]...)
	return n, nil
}

// Arm makes the CQ raise one event: at the next completion, or, if solicitedOnly is
// true, at the next completion that is solicited or failed. If FailArm has set an error,
// Arm only returns this error. Script.Eager and Script.ArmAfterTake describe two further
// deviations. Arm is part of verbs.CQ.
func (q *CQ) Arm(solicitedOnly bool) error {
	q.dev.enter()
	defer q.dev.leave()
	switch {
	case q.closed:
		return verbs.ErrClosed
	case q.failArm != nil:
		return q.failArm
	case q.dev.script.ArmAfterTake && q.channel.due(q):
		return nil
	}
	q.armed, q.solicited, q.lost = true, solicitedOnly, false
	if len(q.queue) > 0 && q.dev.random.happens(q.dev.script.Eager) {
		q.fire()
	}
	return nil
}

// AckEvents acknowledges n events that Next has returned. It is part of verbs.CQ.
func (q *CQ) AckEvents(n int) {
	q.dev.enter()
	defer q.dev.leave()
	q.acked += n
}

// Depth returns the number of completions that the CQ can hold. It is part of verbs.CQ.
func (q *CQ) Depth() int {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	return q.depth
}

// Resize changes the number of completions that the CQ can hold. It fails if the CQ
// already holds more completions, or if the number is greater than Script.MaxCQE. It
// also fails if FailResize has set an error, or if Script.NoResize is true. Resize is
// part of verbs.CQ.
func (q *CQ) Resize(depth int) error {
	q.dev.enter()
	defer q.dev.leave()
	switch {
	case q.closed:
		return verbs.ErrClosed
	case q.dev.script.NoResize:
		return unsupported("resize CQ")
	case q.failResize != nil:
		return q.failResize
	case depth < len(q.queue) || depth > q.dev.script.MaxCQE:
		return &verbs.ParamError{Field: "depth", Value: int64(depth), Limit: int64(q.dev.script.MaxCQE)}
	}
	q.depth = depth
	return nil
}

// Close closes the CQ. It returns verbs.ErrBusy while queue pairs use the CQ or one of
// its events is not acknowledged. A second call does nothing. Close is part of verbs.CQ.
func (q *CQ) Close() error {
	q.dev.enter()
	defer q.dev.leave()
	if q.closed {
		return nil
	}
	if q.users > 0 || q.taken != q.acked {
		return verbs.ErrBusy
	}
	q.closed = true
	q.channel.drop(q)
	return nil
}
