package verbs

import "time"

// A CQ is a completion queue. The field CQAttr.Progress decides which goroutines may call
// the methods of the CQ.
type CQ interface {
	// Poll takes the oldest completions from the queue. Poll stores at most len(dst)
	// completions in dst and returns their number. The caller owns dst. If Poll returns
	// fewer than len(dst) completions and no error, the queue is empty now.
	//
	// If the CQ has memory for small messages, Poll may store messages there: see
	// CQAttr.Inline.
	//
	// Poll may return completions of a QP that is already closed. If there were more
	// completions than the queue can hold, the error matches ErrOverrun. After Close the
	// error matches ErrClosed. Source: ibv_poll_cq(3).
	Poll(dst []WC) (n int, err error)

	// Arm requests one event: when the device adds the next completion to the queue, the
	// device puts an event into the CQ's channel. If solicitedOnly is true, only failures,
	// and receives of messages that the peer sent with SendSolicited, cause the event. If
	// the CQ has no channel, the error is a *ParamError.
	//
	// Completions that were in the queue before Arm cause no event. So a program that wants
	// to sleep calls Arm first and then polls once more. The program sleeps only if the
	// queue is empty. Source: ibv_req_notify_cq(3).
	Arm(solicitedOnly bool) error
	// Disarm cancels an earlier call of Arm. Disarm also drops an event of the CQ that
	// CompChannel.Next has not returned yet. If the CQ is not armed, Disarm does nothing. The
	// result says whether the device can do that: if it is false, the event still comes.
	//
	// While the owner of the CQ is awake and polls, the owner needs no events, and so calls
	// Disarm. Before the owner sleeps, it calls Arm again.
	Disarm() bool

	// AckEvents acknowledges n events of this CQ that CompChannel.Next has returned.
	// CQ.Close returns ErrBusy until all events of the CQ are acknowledged. A number that is
	// too large acknowledges all, and a negative one none. Source: ibv_ack_cq_events(3).
	AckEvents(n int)

	// Depth returns the number of completions that the queue can hold. The number may be
	// larger than requested.
	Depth() int
	// Resize changes the number of completions that the queue can hold. The queue keeps its
	// completions. If the queue has more completions than depth, the error is a
	// *ParamError. If Caps.ResizeCQ is false, the error is a *FeatureError. Source:
	// ibv_resize_cq(3).
	Resize(depth int) error

	// Close destroys the queue. Close returns ErrBusy while a QP uses the queue, or while
	// events of the queue are not acknowledged. Source: ibv_destroy_cq(3).
	Close() error
}

// CQAttr has the parameters of Device.CreateCQ.
type CQAttr struct {
	// Depth is the number of completions that the queue can hold. The device may round the
	// number up.
	Depth int

	// Channel receives the events of the CQ. If Channel is nil, the CQ has no events, and
	// the program can only poll the CQ.
	Channel CompChannel
	// Cookie is a number of the caller's choice. CompChannel.Next returns the cookie with
	// each event of this CQ.
	Cookie uint64

	// Inline is memory for small received messages of QPs in the mode RecvInline. Nil means
	// none. The CQ keeps the slice until Close. It can be in any memory.
	//
	// If Poll stores the completion of a small message in dst[i], it may store the message in
	// Inline[i] instead of a receive buffer. The completion then has the flag WCInline, and
	// the message is in the first WC.ByteLen bytes. The next Poll may overwrite it, so one
	// goroutine at a time polls such a CQ. Messages with immediate data never come inline.
	//
	// A message with WCInline leaves the receive buffer unused. The oldest posted buffer must
	// still be large enough for the message. The completion has the ID of this buffer. The
	// buffer stays posted, so a later completion may have the same ID.
	//
	// Completions beyond dst[len(Inline)-1] never come inline. A device without Caps.RecvModes
	// ignores Inline.
	Inline []InlineData

	// Vector is the completion vector, from 0 to DeviceAttr.NumCompVectors-1. Both CQs
	// of a QP and their channel must have the same Vector and the same Progress; otherwise
	// the error is a *ParamError. With ProgressManual, one goroutine owns all CQs of a vector.
	Vector int
	// Progress decides whether the provider moves data by itself, and which goroutines may
	// call the methods of the CQ.
	Progress Progress
}

// InlineBytes is the size in bytes of the largest received message that fits into an
// InlineData. The limit for sending is QPCaps.MaxInline.
const InlineBytes = 96

// An InlineData is memory for one small message: see CQAttr.Inline.
type InlineData [InlineBytes]byte

// A CompChannel is a completion channel. The descriptor of the channel becomes readable
// when an armed CQ gets a completion. Every goroutine that may call the methods of the
// channel's CQs may also call the methods of the channel.
type CompChannel interface {
	// FD returns the descriptor of the channel. The channel owns the descriptor: callers
	// never read, write or close it.
	//
	// When the descriptor is readable, the caller calls Next. Next may find no event then:
	// with ProgressManual the descriptor is also readable while the device has other work,
	// which Next does.
	FD() int

	// Next takes one event from the channel and returns the cookie of the event's CQ. If
	// there is no event, ok is false. Next never blocks. The caller acknowledges the event
	// later with CQ.AckEvents.
	//
	// Events of different CQs come in any order. When Next returns an event, an earlier
	// Poll may already have emptied the CQ. After an error the channel is unusable. Source:
	// ibv_get_cq_event(3).
	Next() (cookie uint64, ok bool, err error)

	// Join makes Sleep also wait for input on the descriptor fd. After Join, the owner must
	// wait only in Sleep, because the channel no longer makes the descriptor CompChannel.FD
	// readable for each event. The caller owns fd, which must stay open until the channel
	// is closed.
	//
	// For a channel with ProgressAuto, and if Caps.ProgressManual is false, the error is a
	// *FeatureError. After an earlier Join the error matches ErrState. Other errors are those
	// of epoll_ctl(2).
	Join(fd int) error
	// Sleep waits until the channel has an event or other work, until the descriptor given
	// to Join is readable, or until the timeout has passed. A negative timeout means no
	// limit, and zero means no waiting. Other goroutines can end the wait only by input on
	// the descriptor. The sleep takes one system call, and the owner reads no descriptor
	// afterwards.
	//
	// If the result work is true, the channel may have an event or other work, and the
	// owner polls the CQs. Sleep takes no event: the owner calls CQ.Disarm, which drops it,
	// or Next and CQ.AckEvents. If the result input is true, the descriptor is readable.
	// Both may be true. Before Join the error matches ErrState. Other errors are those of
	// epoll_wait(2).
	Sleep(timeout time.Duration) (work, input bool, err error)

	// Close destroys the channel. Close returns ErrBusy while a CQ uses the channel.
	// Source: ibv_destroy_comp_channel(3).
	Close() error
}

// CompChannelAttr has the parameters of Device.CreateCompChannel. The fields have the
// same meaning as in CQAttr. The zero value means vector 0 with automatic progress.
type CompChannelAttr struct {
	Vector   int
	Progress Progress
}
