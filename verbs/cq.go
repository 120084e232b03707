package verbs

// A CQ is a completion queue. CQAttr.Progress decides which goroutines may call its
// methods.
type CQ interface {
	// Poll moves up to len(dst) completions, oldest first, into dst and returns their
	// number. The caller owns dst. If the number is below len(dst) and there is no
	// error, the queue was empty. A closed QP may still have completions.
	//
	// After an overrun Poll returns ErrOverrun. After Close it returns ErrClosed.
	// Source: ibv_poll_cq(3).
	Poll(dst []WC) (n int, err error)

	// Arm requests one event on the channel, for the first completion that is added
	// after the call. If solicitedOnly is true, the completion must be a failure, or the
	// receive of a message that the peer sent with the flag SendSolicited. If the CQ has
	// no channel, the error is a *ParamError.
	//
	// To sleep, a caller calls Arm, polls once more, and sleeps only if the queue is
	// empty. Source: ibv_req_notify_cq(3).
	Arm(solicitedOnly bool) error

	// AckEvents acknowledges n events that CompChannel.Next returned for this CQ. Close
	// returns ErrBusy until all of them are acknowledged. Source: ibv_ack_cq_events(3).
	AckEvents(n int)

	// Depth returns the number of completions that the queue can hold. It is at least
	// CQAttr.Depth, or the depth of the last Resize.
	Depth() int
	// Resize changes the depth and keeps the queued completions. If the completions do
	// not fit, the error is a *ParamError. If Caps.ResizeCQ is false, the error is a
	// *FeatureError. Source: ibv_resize_cq(3).
	Resize(depth int) error

	// Close destroys the queue. It returns ErrBusy while a QP uses the queue or while
	// events are not acknowledged. Source: ibv_destroy_cq(3).
	Close() error
}

// CQAttr has the parameters of Device.CreateCQ.
type CQAttr struct {
	Depth int // number of completions that the queue must be able to hold; the device may round it up

	// Channel receives the events of the CQ. Nil means that the CQ has no events, so the
	// caller can only poll it.
	Channel CompChannel
	// Cookie is the value that Channel.Next returns for an event of this CQ.
	Cookie uint64

	// Vector is the completion vector, from 0 to DeviceAttr.NumCompVectors-1. The CQs of
	// a QP and their channel have the same Vector and Progress. With ProgressManual, one
	// goroutine owns all CQs of a vector.
	Vector int
	// Progress decides who moves the data and who may call the methods of the CQ.
	Progress Progress
}

// A CompChannel is a completion channel. Its descriptor becomes readable when an armed
// CQ gets a completion. A goroutine that may call the methods of the channel's CQs may
// also call the methods of the channel.
type CompChannel interface {
	// FD returns the descriptor of the channel. When the descriptor is readable
	// (level-triggered), the caller calls Next, which may still find no event. With
	// ProgressManual it is also readable while the device has other work.
	//
	// The channel owns the descriptor: callers never read, write or close it.
	FD() int

	// Next takes one event from the channel, and returns the cookie of its CQ and true.
	// If there is no event, ok is false. Next never blocks. The caller acknowledges
	// events with CQ.AckEvents.
	//
	// The CQ of an event may be empty. Events of different CQs have no order. After an
	// error the channel can not be used any more. Source: ibv_get_cq_event(3).
	Next() (cookie uint64, ok bool, err error)

	// Close destroys the channel. It returns ErrBusy while a CQ uses the channel.
	// Source: ibv_destroy_comp_channel(3).
	Close() error
}

// CompChannelAttr has the parameters of Device.CreateCompChannel. See CQAttr for the
// fields. The zero value means vector 0 with automatic progress.
type CompChannelAttr struct {
	Vector   int
	Progress Progress
}
