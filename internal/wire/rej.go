package wire

// An Answered is the message that an MRA or REJ answers.
type Answered uint8

// Messages that are answered so.
const (
	AnsweredREQ   Answered = 0
	AnsweredREP   Answered = 1
	AnsweredOther Answered = 2 // for an MRA a LAP; for a REJ none, as when time is up
)

// A REJ turns a connection down. Source: IBTA vol. 1, 12.6.7.
type REJ struct {
	LocalID  uint32 // 0 where the sender has none
	RemoteID uint32
	Rejected Answered // 2 bits
	Reason   uint16   // IBTA vol. 1, 12.6.7.2
	// Info is additional information, InfoLength bytes of it (7 bits; no
	// promise that there are so many). What it is depends on the reason.
	Info       [72]byte
	InfoLength uint8

	PrivateData [148]byte
}

// Encode makes m this message, with the transaction id of the REQ.
func (r *REJ) Encode(m *MAD, tid uint64) { r.layout(m.writing(AttrREJ, tid)) }

// Decode takes the message from m, of which it copies everything.
func (r *REJ) Decode(m *MAD) { r.layout(m.reading()) }

func (r *REJ) layout(l layout) {
	number(l, 0, 32, &r.LocalID)
	number(l, 4, 32, &r.RemoteID)
	field(l, 8, 0, 2, &r.Rejected)
	field(l, 9, 0, 7, &r.InfoLength)
	number(l, 10, 16, &r.Reason)
	raw(l, 12, r.Info[:])
	raw(l, 84, r.PrivateData[:])
}

// An MRA says that a message was received and its answer will take time. Source:
// IBTA vol. 1, 12.6.6.
type MRA struct {
	LocalID, RemoteID uint32
	Received          Answered // 2 bits
	ServiceTimeout    uint8    // 5 bits: code of the time, as in REQ

	PrivateData [222]byte
}

// Encode makes m this message, with the transaction id of the REQ.
func (r *MRA) Encode(m *MAD, tid uint64) { r.layout(m.writing(AttrMRA, tid)) }

// Decode takes the message from m, of which it copies everything.
func (r *MRA) Decode(m *MAD) { r.layout(m.reading()) }

func (r *MRA) layout(l layout) {
	number(l, 0, 32, &r.LocalID)
	number(l, 4, 32, &r.RemoteID)
	field(l, 8, 0, 2, &r.Received)
	field(l, 9, 0, 5, &r.ServiceTimeout)
	raw(l, 10, r.PrivateData[:])
}
