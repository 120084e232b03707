package verbs

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
