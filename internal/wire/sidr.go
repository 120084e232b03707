package wire

// A SIDRREQ asks for the datagram queue pair of a service. Source: IBTA vol. 1, 12.11.1.
type SIDRREQ struct {
	// Random number of this request.
	RequestID uint32
	PKey      uint16
	ServiceID ServiceID

	// It begins with a CMAHeader, as in a REQ.
	PrivateData [216]byte
}

// Encode writes the message to m. The parameter tid is the transaction id.
func (r *SIDRREQ) Encode(m *MAD, tid uint64) { r.layout(m.encoding(AttrSIDRREQ, tid)) }

// Decode reads the message from m. It keeps no reference to m.
func (r *SIDRREQ) Decode(m *MAD) { r.layout(m.decoding()) }

func (r *SIDRREQ) layout(l layout) {
	number(l, 0, 32, &r.RequestID)
	number(l, 4, 16, &r.PKey)
	number(l, 8, 64, &r.ServiceID)
	raw(l, 16, r.PrivateData[:])
}

// A SIDRREP answers a SIDRREQ. Source: IBTA vol. 1, 12.11.2.
type SIDRREP struct {
	RequestID uint32
	// 0 means success. Any other value is the reason of a refusal. After a refusal, QPN
	// and QKey are invalid.
	Status uint8
	// Additional information about a refusal. InfoLength is the length in bytes that the
	// sender states. It may exceed len(Info).
	Info       [72]byte
	InfoLength uint8
	QPN        uint32 // number of the service's queue pair, 24 bits
	ServiceID  ServiceID
	QKey       uint32 // Q_Key of the service's queue pair

	PrivateData [136]byte
}

// Encode writes the message to m. The parameter tid is the transaction id of the SIDRREQ.
func (r *SIDRREP) Encode(m *MAD, tid uint64) { r.layout(m.encoding(AttrSIDRREP, tid)) }

// Decode reads the message from m. It keeps no reference to m.
func (r *SIDRREP) Decode(m *MAD) { r.layout(m.decoding()) }

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
