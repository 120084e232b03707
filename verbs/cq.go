package verbs

// A CQ is a completion queue. CQAttr.Progress decides which goroutines may call its
// methods.
type CQ interface {
	// Poll moves up to len(dst) completions, oldest first, into dst and returns their
	// number. The caller owns dst. If Poll returns fewer than len(dst) and a nil error,
	// the queue was empty at that moment. Completions of a closed QP that were generated
	// before QP.Close may still be returned. After an overrun every Poll returns
	// ErrOverrun, and after Close ErrClosed. Source: ibv_poll_cq(3).
	Poll(dst []WC) (n int, err error)

	// Arm requests one event on the channel. The event reports the first completion that
	// is added after the call. With solicitedOnly, only two kinds of completion raise the
	// event: a receive whose sender set SendSolicited, and a failed completion.
	// Completions that were in the queue before the call raise no event. A caller that
	// wants to sleep therefore calls Arm first, then polls once more, and sleeps only if
	// the queue is empty. The error is a *ParamError if the CQ has no channel. Source:
	// ibv_req_notify_cq(3).
	Arm(solicitedOnly bool) error

	// AckEvents acknowledges n events that CompChannel.Next returned for this CQ. Close
	// returns ErrBusy until all of them are acknowledged. Source: ibv_ack_cq_events(3).
	AckEvents(n int)

	// Depth returns the number of completions that the queue can hold. It is at least
	// CQAttr.Depth, or the depth of the last Resize.
	Depth() int
	// Resize changes the depth, in completions, and keeps the completions that are
	// queued. It returns a *FeatureError if Caps.ResizeCQ is false, and a *ParamError if
	// depth is less than the number of queued completions. Source: ibv_resize_cq(3).
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
	// one QP and their channel must have the same vector and the same Progress. With
	// ProgressManual, one goroutine must own all CQs of a vector.
	Vector int
	// Progress decides whether the provider or the owner of the CQ moves the data, and
	// which goroutines may call the methods of the CQ.
	Progress Progress
}

// A CompChannel is a completion channel. It has a descriptor that becomes readable when
// an armed CQ gets a completion. A goroutine that may call the methods of the channel's
// CQs may call the methods of the channel too.
type CompChannel interface {
	// FD returns the descriptor of the channel. The caller waits until the descriptor is
	// readable (level-triggered), and then calls Next. The channel owns the descriptor:
	// callers never read, write or close it. With ProgressManual the descriptor is also
	// readable while the device has work to do, such as a received packet. So Next may
	// find no event although the descriptor is readable.
	FD() int

	// Next takes one event from the channel. It returns the cookie of the CQ that raised
	// the event, and true. If there is no event, Next returns false. Next never blocks.
	// The caller acknowledges each event with CQ.AckEvents. After an event the CQ may
	// nevertheless be empty. Events of different CQs come in no particular order. An
	// error means that the channel can not be used any more. Source: ibv_get_cq_event(3).
	Next() (cookie uint64, ok bool, err error)

	// Close destroys the channel. It returns ErrBusy while a CQ uses the channel.
	// Source: ibv_destroy_comp_channel(3).
	Close() error
}

// CompChannelAttr has the parameters of Device.CreateCompChannel. Vector and Progress
// have the meaning that they have in CQAttr. The zero value means vector 0 with
// automatic progress. A vector in manual progress has at most one channel at a time;
// creating a second one fails with ErrBusy.
type CompChannelAttr struct {
	Vector   int
	Progress Progress
}
