package wire

// A DREQ asks the peer to end a connection. Source: IBTA vol. 1, 12.6.10.
type DREQ struct {
	LocalID, RemoteID uint32
	RemoteQPN         uint32 // number of the receiver's queue pair, 24 bits

	PrivateData [220]byte
}

// Encode writes the message to m. The parameter tid is the transaction id.
func (r *DREQ) Encode(m *MAD, tid uint64) { r.layout(m.encoding(AttrDREQ, tid)) }

// Decode reads the message from m. It keeps no reference to m.
func (r *DREQ) Decode(m *MAD) { r.layout(m.decoding()) }

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

// Encode writes the message to m. The parameter tid is the transaction id of the DREQ.
func (r *DREP) Encode(m *MAD, tid uint64) { r.layout(m.encoding(AttrDREP, tid)) }

// Decode reads the message from m. It keeps no reference to m.
func (r *DREP) Decode(m *MAD) { r.layout(m.decoding()) }

func (r *DREP) layout(l layout) {
	number(l, 0, 32, &r.LocalID)
	number(l, 4, 32, &r.RemoteID)
	raw(l, 8, r.PrivateData[:])
}
