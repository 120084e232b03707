package verbs

// An InlineSender is a QP that sends a small message with one call and one copy of the
// data. Use a type assertion to find out whether a QP is an InlineSender.
type InlineSender interface {
	// SendInline sends data as one message. It does the same as PostSend with OpSend,
	// the flag verbs.SendInline and the given flags. The caller owns data and may change
	// it after the call. The same goroutines may call SendInline and PostSend.
	//
	// SendInline returns false if it did nothing, for example because the queue is full.
	// The caller then uses PostSend. If SendInline returns true, the device may still
	// delay the message until the next Doorbell or PostSend.
	SendInline(id uint64, flags SendFlags, data []byte) bool
	// Doorbell makes the device execute the requests of earlier SendInline calls. It
	// does nothing if there are none. It may be called in every state.
	Doorbell()
}

// InlineBytes is the size in bytes of the largest message that fits into an InlineData.
const InlineBytes = 96

// InlineData is memory for one small message.
type InlineData [InlineBytes]byte

// An InlinePoller is a CQ that can return small received messages together with their
// completions. Use a type assertion to find out whether a CQ is an InlinePoller.
type InlinePoller interface {
	// PollInline does what Poll does, and may also store small received messages in
	// data. If dst[i] has the flag WCInline, its message is in the first dst[i].ByteLen
	// bytes of data[i]. Only the first len(data) completions can have the flag.
	//
	// Only a SEND without immediate data can be returned in this way, and only if
	// InlineReceiver.ReceiveInline was called on its QP.
	//
	// A message with WCInline leaves the receive buffer unused. The oldest posted buffer
	// must still be large enough for the message. The completion has the ID of that
	// buffer, and a later completion may have the same ID again.
	//
	// The caller owns dst and data. The CQ may keep references to them until the next
	// call.
	PollInline(dst []WC, data []InlineData) (n int, err error)
}

// An InlineReceiver is a QP whose receive CQ is an InlinePoller. Use a type assertion to
// find out whether a QP is an InlineReceiver.
type InlineReceiver interface {
	// ReceiveInline allows PollInline to return messages of this QP with the flag
	// WCInline. The same goroutines may call ReceiveInline and PostRecv.
	ReceiveInline()
}
