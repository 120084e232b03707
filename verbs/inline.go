package verbs

// This file has two optional abilities of devices, for small messages.

// An InlineSender is a QP that can send a small message with one call and one copy of
// the data. Use a type assertion to find out whether a QP is an InlineSender.
type InlineSender interface {
	// SendInline sends data as one message, like PostSend with OpSend, the flag
	// verbs.SendInline and the given flags. SendInline may be called where PostSend may
	// be called. The caller may change the data after the call. The device may delay the
	// message until the next Doorbell or PostSend.
	//
	// SendInline may also do nothing and return false, for example if the queue is full.
	// The caller then uses PostSend.
	SendInline(id uint64, flags SendFlags, data []byte) bool
	// Doorbell makes the device execute the requests of SendInline, if there are any. It
	// may be called in every state.
	Doorbell()
}

// InlineBytes is the size in bytes of the largest message that InlinePoller.PollInline
// stores in an InlineData.
const InlineBytes = 96

// InlineData is memory for the bytes of one small message.
type InlineData [InlineBytes]byte

// An InlinePoller is a CQ that can return received messages together with their
// completions. Use a type assertion to find out whether a CQ is an InlinePoller.
type InlinePoller interface {
	// PollInline does what Poll does, and may also store small received messages in
	// data. The QP must allow that with InlineReceiver.ReceiveInline. If dst[i] has the
	// flag WCInline, the message is the first dst[i].ByteLen bytes of data[i]. Such a
	// message is a SEND without immediate data. Only the first len(data) completions can
	// have the flag.
	//
	// A message with WCInline does not use a receive buffer. But the oldest posted
	// buffer must be large enough for the message. The completion has the ID of this
	// buffer, and a later completion may have the same ID.
	//
	// The caller owns dst and data. The CQ may keep references to both until the next
	// call.
	PollInline(dst []WC, data []InlineData) (n int, err error)
}

// An InlineReceiver is a QP whose receive CQ is an InlinePoller. Use a type assertion to
// find out whether a QP is an InlineReceiver.
type InlineReceiver interface {
	// ReceiveInline allows PollInline to return messages of this QP with the flag
	// WCInline. It may be called where PostRecv may be called.
	ReceiveInline()
}
