package verbs

// A CQ is a completion queue. CQAttr.Progress decides which goroutines may call its
// methods.
type CQ interface {
	// Poll takes the oldest completions from the queue. It stores at most len(dst)
	// completions in dst and returns their number. The caller owns dst. If Poll returns
	// fewer than len(dst) completions and no error, the queue is empty now.
	//
	// The queue may still have completions of a QP that was closed. After an overrun the
	// error is ErrOverrun. After Close the error is ErrClosed. Source: ibv_poll_cq(3).
	Poll(dst []WC) (n int, err error)

	// Arm requests one event. The device puts this event into the CQ's channel as soon
	// as it adds a completion to the queue. With solicitedOnly, only two kinds of
	// completions count: failures, and receives of messages that the peer sent with
	// SendSolicited. If the CQ has no channel, the error is a *ParamError.
	//
	// Completions that were in the queue before Arm cause no event. So a program that
	// wants to sleep calls Arm first, then polls once more, and sleeps only if the queue
	// is empty. Source: ibv_req_notify_cq(3).
	Arm(solicitedOnly bool) error

	// AckEvents tells the device that n events of this CQ were taken from its channel
	// with CompChannel.Next. Close returns ErrBusy until all of them are acknowledged.
	// Source: ibv_ack_cq_events(3).
	AckEvents(n int)

	// Depth returns the number of completions that the queue can hold. The device may
	// have rounded up the depth that was asked for.
	Depth() int
	// Resize changes the depth. The completions in the queue stay there. If they do not
	// fit, the error is a *ParamError. If Caps.ResizeCQ is false, the error is a
	// *FeatureError. Source: ibv_resize_cq(3).
	Resize(depth int) error

	// Close destroys the queue. It returns ErrBusy while a QP uses the queue. It also
	// returns ErrBusy while events of the queue are not acknowledged. Source:
	// ibv_destroy_cq(3).
	Close() error
}

// CQAttr has the parameters of Device.CreateCQ.
type CQAttr struct {
	Depth int // number of completions that the queue can hold; the device may round it up

	// Channel receives the events of the CQ. If it is nil, the CQ has no events and can
	// only be polled.
	Channel CompChannel
	// Cookie is a number of the caller. Channel.Next returns it with each event of this
	// CQ.
	Cookie uint64

	// Vector is the completion vector, from 0 to DeviceAttr.NumCompVectors-1. Both CQs
	// of a QP and their channel must have the same Vector and the same Progress. With
	// ProgressManual, one goroutine owns all CQs of a vector.
	Vector int
	// Progress decides who moves the data, and who may call the methods of the CQ.
	Progress Progress
}

// A CompChannel is a completion channel. Its descriptor becomes readable when an armed
// CQ gets a completion. Every goroutine that may call the methods of the channel's CQs
// may also call the methods of the channel.
type CompChannel interface {
	// FD returns the descriptor of the channel. The channel owns the descriptor: callers
	// never read, write or close it.
	//
	// While the descriptor is readable, the caller calls Next. Sometimes Next finds no
	// event. With ProgressManual the descriptor is also readable while the device has
	// other work to do.
	FD() int

	// Next takes one event from the channel and returns the cookie of its CQ. If there
	// is no event, ok is false. Next never blocks. The caller acknowledges the event
	// later with CQ.AckEvents.
	//
	// Events of different CQs come in any order. An earlier poll may have emptied the CQ
	// already. After an error the channel is unusable. Source: ibv_get_cq_event(3).
	Next() (cookie uint64, ok bool, err error)

	// Close destroys the channel. It returns ErrBusy while a CQ uses the channel.
	// Source: ibv_destroy_comp_channel(3).
	Close() error
}

// CompChannelAttr has the parameters of Device.CreateCompChannel. CQAttr describes the
// fields. The zero value means vector 0 with automatic progress.
type CompChannelAttr struct {
	Vector   int
	Progress Progress
}
