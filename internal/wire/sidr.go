package wire

// A SIDRREQ asks which queue pair a service is on, for datagrams. Source: IBTA
// vol. 1, 12.11.1.
type SIDRREQ struct {
	RequestID uint32 // random: it alone tells requests apart
	PKey      uint16
	ServiceID ServiceID

	PrivateData [216]byte // as in REQ
}

// Encode makes m this message, with a transaction id.
func (r *SIDRREQ) Encode(m *MAD, tid uint64) { r.layout(m.writing(AttrSIDRREQ, tid)) }

// Decode takes the message from m, of which it copies everything.
func (r *SIDRREQ) Decode(m *MAD) { r.layout(m.reading()) }

func (r *SIDRREQ) layout(l layout) {
	number(l, 0, 32, &r.RequestID)
	number(l, 4, 16, &r.PKey)
	number(l, 8, 64, &r.ServiceID)
	raw(l, 16, r.PrivateData[:])
}

// A SIDRREP answers a SIDRREQ. Source: IBTA vol. 1, 12.11.2.
type SIDRREP struct {
	RequestID uint32
	Status    uint8 // 0: found. Else why not, and the rest says nothing
	// Info is additional information, InfoLength bytes of it, which is no
	// promise.
	Info       [72]byte
	InfoLength uint8
	QPN        uint32 // 24 bits
	ServiceID  ServiceID
	QKey       uint32 // of the queue pair

	PrivateData [136]byte
}

// Encode makes m this message, with the transaction id of the SIDRREQ.
func (r *SIDRREP) Encode(m *MAD, tid uint64) { r.layout(m.writing(AttrSIDRREP, tid)) }

// Decode takes the message from m, of which it copies everything.
func (r *SIDRREP) Decode(m *MAD) { r.layout(m.reading()) }

func (r *SIDRREP) layout(l layout) {
	number(l, 0, 32, &r.RequestID)
	number(l, 4, 8, &r.Status)
	number(l, 5, 8, &r.InfoLength)
	number(l, 8, 24, &r.QPN)
	number(l, 12, 64, &r.ServiceID)
	number(l, 20, 32, &r.QKey)
	raw(l, 24, r.Info[:])
	raw(l, 96, r.PrivateData[:])
}
