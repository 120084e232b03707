package verbs

// This file has two optional abilities of devices, for small messages. They follow the
// rules of PostSend and Poll, with less work for each message.

// An InlineSender is a QP that accepts SENDs with inline data one by one, and copies the
// data of each message only once, to where the device sends it from. Use a type assertion
// to find out whether a QP is an InlineSender. The model is ibv_wr_post(3).
type InlineSender interface {
	// SendInline does what PostSend does with one request with the opcode OpSend, the
	// flags SendInline and flags, and the payload data, but it may leave out the doorbell:
	// the device executes the request before or during the next call of Doorbell or
	// PostSend. The caller may use data again when SendInline has returned.
	//
	// SendInline returns false, and does nothing, if the device can not accept the request
	// in this way at the moment: for example because earlier requests wait in the send
	// queue, or because a flag is not supported. The caller then uses PostSend, which
	// accepts the request or returns the reason why not. SendInline may be called where
	// PostSend may be called.
	SendInline(id uint64, flags SendFlags, data []byte) bool
	// Doorbell makes the device execute the requests that SendInline has accepted. It may be
	// called in every state, and does nothing if there are no such requests.
	Doorbell()
}

// InlineBytes is the size in bytes of the largest message that InlinePoller.PollInline
// stores in an InlineData.
const InlineBytes = 96

// InlineData is memory for the bytes of one small message.
type InlineData [InlineBytes]byte

// An InlinePoller is a CQ that can return received messages together with their
// completions. Use a type assertion to find out whether a CQ is an InlinePoller. Some
// network cards have the same ability: they store small messages in the completion.
type InlinePoller interface {
	// PollInline does what Poll does, and may also return small messages of those QPs for
	// which InlineReceiver.ReceiveInline was called. If the flag WCInline is set in dst[i],
	// a SEND without immediate data has arrived, and its bytes are the first
	// dst[i].ByteLen bytes of data[i].
	//
	// Such a message needs a buffer in the receive queue that is large enough for it, like
	// every message, but the buffer is not used and remains posted. The ID of the
	// completion is that of this buffer, which is the oldest one in the queue.
	//
	// If data is shorter than dst, only the first completions can have the flag. The caller
	// owns both slices. The CQ may keep references to them until the next call.
	PollInline(dst []WC, data []InlineData) (n int, err error)
}

// An InlineReceiver is a QP whose receive CQ is an InlinePoller. Use a type assertion to
// find out whether a QP is an InlineReceiver.
type InlineReceiver interface {
	// ReceiveInline allows PollInline to return messages of this QP with the flag
	// WCInline. It may be called where PostRecv may be called.
	ReceiveInline()
}
