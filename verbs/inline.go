package verbs

// This file has two optional abilities of devices, for small messages.

// An InlineSender is a QP that accepts SENDs with inline data one by one, with a single
// copy of the data. A type assertion finds out whether a QP is one. The model is
// ibv_wr_post(3).
type InlineSender interface {
	// SendInline sends the bytes in the parameter data. It does what PostSend does for a
	// SendWR with OpSend and the flag SendInline. The parameter flags adds other flags.
	// The device may delay the request until the next Doorbell or PostSend. When this
	// method has returned, the caller may change the bytes. The method may be called
	// where PostSend may be called.
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
	// PollInline does what Poll does, and may also store small received messages in the
	// parameter data. The QP must allow that with InlineReceiver.ReceiveInline. If dst[i]
	// has the flag WCInline, the first dst[i].ByteLen bytes of data[i] are the message: a
	// SEND without immediate data. Only the first len(data) completions can have the flag.
	//
	// The message arrives only if the oldest posted receive buffer is large enough for it.
	// But the buffer is not used: it stays posted, and a later message can fill it. The
	// completion with WCInline has the ID of this buffer, and a later completion may have
	// the same ID. The caller owns dst and data. The CQ may keep references to both until
	// the next call.
	PollInline(dst []WC, data []InlineData) (n int, err error)
}

// An InlineReceiver is a QP whose receive CQ is an InlinePoller. Use a type assertion to
// find out whether a QP is an InlineReceiver.
type InlineReceiver interface {
	// ReceiveInline allows PollInline to return messages of this QP with the flag
	// WCInline. It may be called where PostRecv may be called.
	ReceiveInline()
}
