package wire

import "github.com/rdmaloop/rdmaloop/internal/psn"

// A REQ requests a connection. "Local" means the sender, and "remote" the receiver. Times
// are codes: the code c means 4.096 µs * 2^c. Source: IBTA vol. 1, 12.6.5.
type REQ struct {
	LocalID   uint32 // communication id that the sender has chosen
	ServiceID ServiceID
	CAGUID    uint64 // GUID of the sender's channel adapter
	QKey      uint32
	QPN       uint32 // number of the sender's queue pair, 24 bits

	// READs and atomics that the sender can serve at the same time.
	ResponderResources uint8
	// READs and atomics that the sender wants to have outstanding, at most.
	InitiatorDepth uint8

	// The receiver must answer a CM message within this time. 5 bits.
	RemoteTimeout uint8
	Transport     uint8 // transport service, 2 bits: 0 is RC
	FlowControl   bool  // true if the sender uses end-to-end flow control
	// PSN of the first request from the receiver of the REQ.
	StartPSN psn.Value
	// The sender will answer a CM message within this time. 5 bits.
	LocalTimeout uint8
	// Transport retry count for the receiver's queue pair, 3 bits.
	RetryCount uint8
	PKey       uint16
	// Code of the path MTU, 4 bits: from 1 for 256 bytes to 5 for 4096.
	MTU      uint8
	RNRRetry uint8 // RNR retry count for the receiver's queue pair, 3 bits
	// Either side retransmits a CM message at most this often. 4 bits.
	MaxCMRetries uint8
	SRQ          bool

	Primary Path

	// For the RDMA IP CM service, it begins with a CMAHeader. The message does not say
	// how many bytes are used.
	PrivateData [92]byte
}

// A Path is the network path that a REQ proposes. RoCE has no alternate path.
type Path struct {
	LocalLID, RemoteLID uint16 // local identifiers: 0xffff on RoCE
	LocalGID, RemoteGID GID
	FlowLabel           uint32 // flow label of the GRH, 20 bits
	PacketRate          uint8  // code of the packet rate, 6 bits
	TrafficClass        uint8
	HopLimit            uint8
	SL                  uint8 // service level, 4 bits
	SubnetLocal         bool
	AckTimeout          uint8 // local ACK timeout, 5 bits
}

// Encode writes the message to m. The parameter tid is the transaction id.
func (r *REQ) Encode(m *MAD, tid uint64) { r.layout(m.encoding(AttrREQ, tid)) }

// Decode reads the message from m. It keeps no reference to m. The caller checks the
// values.
func (r *REQ) Decode(m *MAD) { r.layout(m.decoding()) }

func (r *REQ) layout(l layout) {
	number(l, 0, 32, &r.LocalID)
	number(l, 8, 64, &r.ServiceID)
	number(l, 16, 64, &r.CAGUID)
	number(l, 28, 32, &r.QKey)
	number(l, 32, 24, &r.QPN)
	number(l, 35, 8, &r.ResponderResources)
	number(l, 39, 8, &r.InitiatorDepth)
	field(l, 43, 0, 5, &r.RemoteTimeout)
	field(l, 43, 5, 2, &r.Transport)
	flag(l, 43, 7, &r.FlowControl)
	number(l, 44, 24, &r.StartPSN)
	field(l, 47, 0, 5, &r.LocalTimeout)
	field(l, 47, 5, 3, &r.RetryCount)
	number(l, 48, 16, &r.PKey)
	field(l, 50, 0, 4, &r.MTU)
	field(l, 50, 5, 3, &r.RNRRetry)
	field(l, 51, 0, 4, &r.MaxCMRetries)
	flag(l, 51, 4, &r.SRQ)
	r.Primary.layout(l, 52)
	raw(l, 140, r.PrivateData[:])
}

func (p *Path) layout(l layout, off int) {
	number(l, off, 16, &p.LocalLID)
	number(l, off+2, 16, &p.RemoteLID)
	raw(l, off+4, p.LocalGID[:])
	raw(l, off+20, p.RemoteGID[:])
	number(l, off+36, 20, &p.FlowLabel)
	field(l, off+39, 2, 6, &p.PacketRate)
	number(l, off+40, 8, &p.TrafficClass)
	number(l, off+41, 8, &p.HopLimit)
	field(l, off+42, 0, 4, &p.SL)
	flag(l, off+42, 4, &p.SubnetLocal)
	field(l, off+43, 0, 5, &p.AckTimeout)
}
