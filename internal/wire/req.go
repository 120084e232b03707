package wire

import "github.com/rdmaloop/rdmaloop/internal/psn"

// A REQ asks for a connection. "Local" and "remote" are as its sender sees them.
// Timeouts are codes: c stands for 4.096 µs * 2^c. Source: IBTA vol. 1, 12.6.5.
type REQ struct {
	LocalID   uint32 // communication id, the sender's choice
	ServiceID ServiceID
	CAGUID    uint64 // with LocalID, and with QPN, unique for all time
	QKey      uint32
	QPN       uint32 // 24 bits

	ResponderResources uint8 // READs and atomics that the sender serves at a time
	InitiatorDepth     uint8 // READs and atomics that it wants to have outstanding

	RemoteTimeout uint8 // 5 bits: in which the receiver is to answer
	Transport     uint8 // 2 bits: 0 is RC
	FlowControl   bool  // end to end
	// StartPSN is what the receiver's first request has for a PSN.
	StartPSN     psn.Value
	LocalTimeout uint8 // 5 bits: in which the sender will answer
	RetryCount   uint8 // 3 bits: for the queue pair of the receiver
	PKey         uint16
	MTU          uint8 // 4 bits: code of the path MTU, 1 for 256 bytes to 5 for 4096
	RNRRetry     uint8 // 3 bits: for the queue pair of the receiver
	MaxCMRetries uint8 // 4 bits: how often either side sends a message again
	SRQ          bool

	Primary Path

	// PrivateData begins with a CMAHeader where the service is RDMA IP CM. How
	// much of it is in use is not told, here and in the other messages.
	PrivateData [92]byte
}

// A Path is the way that a connection request proposes. An alternate path is
// never written, and not looked at: there is no path migration on RoCE.
type Path struct {
	LocalLID, RemoteLID uint16 // 0xffff on RoCE
	LocalGID, RemoteGID GID
	FlowLabel           uint32 // 20 bits
	PacketRate          uint8  // 6 bits
	TrafficClass        uint8
	HopLimit            uint8
	SL                  uint8 // 4 bits: service level
	SubnetLocal         bool
	AckTimeout          uint8 // 5 bits: code of the local ACK timeout
}

// Encode makes m this message, with a transaction id.
func (r *REQ) Encode(m *MAD, tid uint64) { r.layout(m.writing(AttrREQ, tid)) }

// Decode takes the message from m, of which it copies everything. Any data is a
// REQ of some sort: what the values mean is the caller's to judge.
func (r *REQ) Decode(m *MAD) { r.layout(m.reading()) }

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
