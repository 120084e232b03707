package verbs

// This file has two optional abilities of devices, for small messages.

// An InlineSender is a QP that accepts SENDs with inline data one by one, with a single
// copy of the data. A type assertion finds out whether a QP is one. The model is
// ibv_wr_post(3).
type InlineSender interface {
	// SendInline sends data as PostSend does with OpSend and the flags SendInline and
	// flags. The device may execute the request only at the next Doorbell or PostSend.
	// The caller may use data again when SendInline has returned. SendInline may be
	// called where PostSend may be called.
	//
	// If the device can not do this now, SendInline returns false and does nothing. The
	// caller then uses PostSend.
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
// completions. A type assertion finds out whether a CQ is one. Some network cards have
// this ability too.
type InlinePoller interface {
	// PollInline is Poll, but may also return small messages of QPs with
	// InlineReceiver.ReceiveInline. If dst[i] has the flag WCInline, data[i] begins with
	// the dst[i].ByteLen bytes of a SEND without immediate data. Only the first len(data)
	// completions can have it.
	//
	// Such a message still needs a large enough receive buffer, but leaves it posted. The
	// ID of the completion is that of the oldest buffer. The caller owns both slices. The
	// CQ may keep references to them until the next call.
	PollInline(dst []WC, data []InlineData) (n int, err error)
}

// An InlineReceiver is a QP whose receive CQ is an InlinePoller. Use a type assertion to
// find out whether a QP is an InlineReceiver.
type InlineReceiver interface {
	// ReceiveInline allows PollInline to return messages of this QP with the flag
	// WCInline. It may be called where PostRecv may be called.
	ReceiveInline()
}
