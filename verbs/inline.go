package verbs

// An InlineSender is a QP that can send a small message with one call, and with one copy
// of the data. Use a type assertion to find out whether a QP is an InlineSender.
type InlineSender interface {
	// SendInline sends data as one message. The call is equal to a PostSend of a request
	// with the operation OpSend, the flag verbs.SendInline and the given flags. The caller
	// owns data and may change data after the call. Every goroutine that may call PostSend
	// may also call SendInline.
	//
	// If SendInline can not send the message, for example because the queue is full,
	// SendInline does nothing and returns false. The caller then uses PostSend. If
	// SendInline returns true, the device may still delay the message until the next call
	// of Doorbell or PostSend.
	SendInline(id uint64, flags SendFlags, data []byte) bool
	// Doorbell makes the device execute the requests of earlier SendInline calls. If there
	// are no such requests, Doorbell does nothing. Doorbell may be called in every state of
	// the QP.
	Doorbell()
}

// InlineBytes is the size in bytes of the largest message that fits into an InlineData.
const InlineBytes = 96

// An InlineData is a buffer for one small message.
type InlineData [InlineBytes]byte

// An InlinePoller is a CQ that can return small received messages together with their
// completions. Use a type assertion to find out whether a CQ is an InlinePoller.
type InlinePoller interface {
	// PollInline does what Poll does, and may also store small received messages in data.
	// If dst[i] has the flag WCInline, the message is in the first dst[i].ByteLen bytes of
	// data[i]. Only the first len(data) completions can have the flag.
	//
	// PollInline stores only messages of SENDs without immediate data, and only messages of
	// QPs on which InlineReceiver.ReceiveInline was called.
	//
	// A message with WCInline leaves the receive buffer unused. The oldest posted buffer
	// must still be large enough for the message. The completion has the ID of this buffer.
	// The buffer stays posted, so a later completion may have the same ID.
	//
	// The caller owns dst and data. The CQ may keep references to dst and data until the
	// next call.
	PollInline(dst []WC, data []InlineData) (n int, err error)
}

// An InlineReceiver is a QP whose receive CQ is an InlinePoller. Use a type assertion to
// find out whether a QP is an InlineReceiver. Such a QP is a RecvPauser, too, because a
// message without a buffer does not use up the receive queue.
type InlineReceiver interface {
	// ReceiveInline allows PollInline to return messages of this QP with the flag WCInline.
	// Every goroutine that may call PostRecv may also call ReceiveInline.
	ReceiveInline()
}
