package faultcq

import "github.com/rdmaloop/rdmaloop/verbs"

// A CQ is a completion queue. Tests add completions with Complete. It implements
// verbs.CQ.
type CQ struct {
	dev     *Device
	channel *Channel
	cookie  uint64
	depth   int
	queue   []verbs.WC // completions that were not polled, oldest first

	armed bool
	// Armed for solicited events only. Only failed completions and solicited ones then
	// cause an event.
	solicited bool
	lost      bool // an event was dropped since the CQ was armed

	// number of events that Next has returned, and number of acknowledged events
	taken, acked int
	// Queue pairs that use the CQ.
	users int

	// Errors of Poll, Arm and Resize, or nil.
	failPoll, failArm, failResize error

	// Poll returns a number that is too large by overReport.
	overReport int
	closed     bool
}

// Complete adds a completion. If there is no room, the CQ becomes unusable, and Poll
// returns verbs.ErrOverrun.
func (q *CQ) Complete(wc verbs.WC) { q.add(wc, false) }

// CompleteSolicited adds the completion of a message with the solicited event flag.
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

// fire causes an event and disarms the CQ.
func (q *CQ) fire() {
	q.armed = false
	q.channel.raise(q)
}

// FailPoll makes Poll return err. A nil err ends the fault.
func (q *CQ) FailPoll(err error) { q.setFailure(&q.failPoll, err) }

// FailArm makes Arm return err. A nil err ends the fault.
func (q *CQ) FailArm(err error) { q.setFailure(&q.failArm, err) }

// FailResize makes Resize return err. A nil err ends the fault.
func (q *CQ) FailResize(err error) { q.setFailure(&q.failResize, err) }

func (q *CQ) setFailure(which *error, err error) {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	*which = err
}

// OverReport makes Poll return a number that is larger than its slice by n.
func (q *CQ) OverReport(n int) {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	q.overReport = n
}

// Use adds n to the number of queue pairs that use the CQ. While there are any, the CQ
// can not be closed.
func (q *CQ) Use(n int) {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	q.users += n
}

// Waiting returns the number of completions that were not polled.
func (q *CQ) Waiting() int {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	return len(q.queue)
}

// Armed reports whether the next completion causes an event.
func (q *CQ) Armed() bool {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	return q.armed
}

// EventDue reports whether an event of the CQ is in the channel or delayed.
func (q *CQ) EventDue() bool {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	return q.channel.due(q)
}

// EventLost reports whether an event was dropped since the CQ was armed.
func (q *CQ) EventLost() bool {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	return q.lost
}

// Events returns the number of the CQ's events that Next has returned, and the number
// that was acknowledged.
func (q *CQ) Events() (taken, acked int) {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	return q.taken, q.acked
}

// Poll moves the oldest completions to dst and returns their number. FailPoll makes it
// return an error, and OverReport a number that is too large.
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

// Arm requests one event for the next completion. If solicitedOnly is true, the next
// solicited or failed completion causes the event. FailArm, Script.Eager and
// Script.ArmAfterTake change what Arm does.
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

// Disarm returns false.
func (q *CQ) Disarm() bool { return false }

// AckEvents acknowledges n events that Next has returned.
func (q *CQ) AckEvents(n int) {
	q.dev.enter()
	defer q.dev.leave()
	q.acked += n
}

// Depth returns the number of completions for which the CQ has room.
func (q *CQ) Depth() int {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	return q.depth
}

// Resize changes the depth of the CQ. It fails:
//
//   - if the CQ holds more completions
//   - above Script.MaxCQE
//   - after FailResize
//   - with Script.NoResize
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

// Close closes the CQ. It returns verbs.ErrBusy if a queue pair uses the CQ or an event
// was not acknowledged. A second Close does nothing.
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
