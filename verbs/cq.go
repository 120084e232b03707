package verbs

import "time"

// A CQ is a completion queue. See CQAttr.Progress for who may call.
type CQ interface {
	// Poll moves up to len(dst) completions, oldest first, into dst, which
	// stays the caller's, and returns how many. Fewer than len(dst), with a
	// nil error, means that the queue was empty then. Completions of closed
	// QPs may still come, as far as they were generated. After an overrun, and
	// after Close, Poll returns an error for good. Source: ibv_poll_cq(3).
	Poll(dst []WC) (n int, err error)

	// Arm asks for one event on the channel, for the first completion that is
	// added after the call; with solicitedOnly only a receive whose sender set
	// SendSolicited, or a failed completion, counts. Completions that were
	// there before raise none, so poll again after arming and before
	// sleeping. Source: ibv_req_notify_cq(3).
	Arm(solicitedOnly bool) error

	// AckEvents gives back n events taken from the channel by Next. Close
	// needs all of them back. Source: ibv_ack_cq_events(3).
	AckEvents(n int)

	// Depth is how many completions the queue can hold.
	Depth() int
	// Resize changes the depth, keeping what is queued. It returns a
	// *FeatureError where Caps.ResizeCQ is false. Source: ibv_resize_cq(3).
	Resize(depth int) error

	// Close destroys the queue, or returns ErrBusy while a QP uses it or
	// events are not given back. Source: ibv_destroy_cq(3).
	Close() error
}

// A SpinPoller is a CQ that can wait for completions by polling inside the
// provider. The ability is optional: a CQ whose Poll is dear, because it crosses
// into another language or runtime, has it; one whose Poll is a load from memory
// has no use for it. Look for it once, when the CQ has been made.
type SpinPoller interface {
	// PollSpin is CQ.Poll, except that while the queue is empty it goes on
	// polling for up to limit, at least once. It keeps its processor busy and
	// does not see anything else, so a limit is a few microseconds. It returns
	// with the first completions, and with none and a nil error when limit has
	// passed. An empty dst is not waited for. Calls and errors are those of
	// Poll.
	PollSpin(dst []WC, limit time.Duration) (n int, err error)
}

// CQAttr is what a CQ is made with.
type CQAttr struct {
	Depth int // completions it must be able to hold; may be rounded up

	// Channel receives the events; nil means that the CQ is only polled.
	Channel CompChannel
	// Cookie is what Channel.Next returns for this CQ.
	Cookie uint64

	// Vector is the completion vector, from 0, less than
	// DeviceAttr.NumCompVectors. All CQs of one QP and their channel must
	// share vector and progress. With ProgressManual, all CQs of one vector
	// must have the same owner.
	Vector int
	// Progress: see the constants.
	Progress Progress
}

// A CompChannel is a descriptor that becomes readable when an armed CQ gets a
// completion. Calls as for the CQs on it.
type CompChannel interface {
	// FD is the descriptor to wait on, for input, level-triggered. It belongs
	// to the channel: never read, write or close it. With ProgressManual it
	// also becomes readable when there is work to be driven, so that Next is
	// due although there may be no event.
	FD() int

	// Next takes one event: the cookie of the CQ that fired, and true; or
	// false when there is none. It never blocks. Each event is given back
	// with CQ.AckEvents. An event may be spurious: the CQ may be empty. CQs
	// fire in no particular order. Source: ibv_get_cq_event(3).
	Next() (cookie uint64, ok bool, err error)

	// Close destroys the channel, or returns ErrBusy while a CQ is on it.
	Close() error
}

// CompChannelAttr is what a completion channel is made with. The zero value is
// vector 0 with automatic progress. A vector in manual progress has one channel
// at a time: a second is refused with ErrBusy.
type CompChannelAttr struct {
	Vector   int
	Progress Progress
}
