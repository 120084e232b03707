package wire

// A DREQ ends a connection. Source: IBTA vol. 1, 12.6.10.
type DREQ struct {
	LocalID, RemoteID uint32
	RemoteQPN         uint32 // 24 bits: the receiver's

	PrivateData [220]byte
}

// Encode makes m this message, with a transaction id.
func (r *DREQ) Encode(m *MAD, tid uint64) { r.layout(m.writing(AttrDREQ, tid)) }

// Decode takes the message from m, of which it copies everything.
func (r *DREQ) Decode(m *MAD) { r.layout(m.reading()) }

func (r *DREQ) layout(l layout) {
	number(l, 0, 32, &r.LocalID)
	number(l, 4, 32, &r.RemoteID)
	number(l, 8, 24, &r.RemoteQPN)
	raw(l, 12, r.PrivateData[:])
}

// A DREP confirms a DREQ. Source: IBTA vol. 1, 12.6.11.
type DREP struct {
	LocalID, RemoteID uint32
	PrivateData       [224]byte
}

// Encode makes m this message, with the transaction id of the DREQ.
func (r *DREP) Encode(m *MAD, tid uint64) { r.layout(m.writing(AttrDREP, tid)) }

// Decode takes the message from m, of which it copies everything.
func (r *DREP) Decode(m *MAD) { r.layout(m.reading()) }

func (r *DREP) layout(l layout) {
	number(l, 0, 32, &r.LocalID)
	number(l, 4, 32, &r.RemoteID)
	raw(l, 8, r.PrivateData[:])
}
