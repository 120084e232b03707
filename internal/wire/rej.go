package wire

// Answered says which message an MRA or a REJ answers.
type Answered uint8

// Messages that an MRA or a REJ answers.
const (
	AnsweredREQ Answered = 0
	AnsweredREP Answered = 1
	// In an MRA: a LAP. In a REJ: no message, for example after a timeout.
	AnsweredOther Answered = 2
)

// A REJ rejects a connection. Source: IBTA vol. 1, 12.6.7.
type REJ struct {
	LocalID  uint32 // communication id of the sender, or 0
	RemoteID uint32
	Rejected Answered // message that is rejected, 2 bits
	Reason   uint16   // see IBTA vol. 1, 12.6.7.2
	// Additional information. Its meaning depends on Reason. InfoLength is the length
	// that the sender states, 7 bits. It may exceed len(Info).
	Info       [72]byte
	InfoLength uint8

	PrivateData [148]byte
}

// Encode writes the message to m. The parameter tid is the transaction id of the REQ.
func (r *REJ) Encode(m *MAD, tid uint64) { r.layout(m.encoding(AttrREJ, tid)) }

// Decode reads the message from m. It keeps no reference to m.
func (r *REJ) Decode(m *MAD) { r.layout(m.decoding()) }

func (r *REJ) layout(l layout) {
	number(l, 0, 32, &r.LocalID)
	number(l, 4, 32, &r.RemoteID)
	field(l, 8, 0, 2, &r.Rejected)
	field(l, 9, 0, 7, &r.InfoLength)
	number(l, 10, 16, &r.Reason)
	raw(l, 12, r.Info[:])
	raw(l, 84, r.PrivateData[:])
}

// An MRA says that the sender needs more time for its answer. Source: IBTA vol. 1,
// 12.6.6.
type MRA struct {
	LocalID, RemoteID uint32
	Received          Answered // message that was received, 2 bits
	// Time until the answer, 5 bits. The code is the same as in REQ.RemoteTimeout.
	ServiceTimeout uint8

	PrivateData [222]byte
}

// Encode writes the message to m. The parameter tid is the transaction id of the REQ.
func (r *MRA) Encode(m *MAD, tid uint64) { r.layout(m.encoding(AttrMRA, tid)) }

// Decode reads the message from m. It keeps no reference to m.
func (r *MRA) Decode(m *MAD) { r.layout(m.decoding()) }

func (r *MRA) layout(l layout) {
	number(l, 0, 32, &r.LocalID)
	number(l, 4, 32, &r.RemoteID)
	field(l, 8, 0, 2, &r.Received)
	field(l, 9, 0, 5, &r.ServiceTimeout)
	raw(l, 10, r.PrivateData[:])
}
