package wire

import "github.com/rdmaloop/rdmaloop/internal/psn"

// A REP accepts a REQ. Source: IBTA vol. 1, 12.6.8.
type REP struct {
	LocalID, RemoteID uint32
	QKey              uint32
	QPN               uint32 // number of the sender's queue pair, 24 bits
	// PSN of the first request from the receiver of the REP.
	StartPSN psn.Value

	// READs and atomics that the sender can serve at the same time.
	ResponderResources uint8
	// READs and atomics that the sender will have outstanding, at most.
	InitiatorDepth uint8

	// Maximum delay of the sender's ACKs, 5 bits. The code is the same as in a REQ.
	TargetAckDelay uint8
	// Failover accepted, 2 bits. It is 0, because there is no path migration.
	Failover    uint8
	FlowControl bool  // true if the sender uses end-to-end flow control
	RNRRetry    uint8 // RNR retry count for the receiver's queue pair, 3 bits
	SRQ         bool
	CAGUID      uint64

	PrivateData [196]byte
}

// Encode writes the message to m. The parameter tid is the transaction id of the REQ.
func (r *REP) Encode(m *MAD, tid uint64) { r.layout(m.encoding(AttrREP, tid)) }

// Decode reads the message from m. It keeps no reference to m.
func (r *REP) Decode(m *MAD) { r.layout(m.decoding()) }

func (r *REP) layout(l layout) {
	number(l, 0, 32, &r.LocalID)
	number(l, 4, 32, &r.RemoteID)
	number(l, 8, 32, &r.QKey)
	number(l, 12, 24, &r.QPN)
	number(l, 20, 24, &r.StartPSN)
	number(l, 24, 8, &r.ResponderResources)
	number(l, 25, 8, &r.InitiatorDepth)
	field(l, 26, 0, 5, &r.TargetAckDelay)
	field(l, 26, 5, 2, &r.Failover)
	flag(l, 26, 7, &r.FlowControl)
	field(l, 27, 0, 3, &r.RNRRetry)
	flag(l, 27, 3, &r.SRQ)
	number(l, 28, 64, &r.CAGUID)
	raw(l, 36, r.PrivateData[:])
}

// An RTU says that its sender is ready to use the connection. It answers a REP. Source:
// IBTA vol. 1, 12.6.9.
type RTU struct {
	LocalID, RemoteID uint32
	PrivateData       [224]byte
}

// Encode writes the message to m. The parameter tid is the transaction id of the REQ.
func (r *RTU) Encode(m *MAD, tid uint64) { r.layout(m.encoding(AttrRTU, tid)) }

// Decode reads the message from m. It keeps no reference to m.
func (r *RTU) Decode(m *MAD) { r.layout(m.decoding()) }

func (r *RTU) layout(l layout) {
	number(l, 0, 32, &r.LocalID)
	number(l, 4, 32, &r.RemoteID)
	raw(l, 8, r.PrivateData[:])
}
