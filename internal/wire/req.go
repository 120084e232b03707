package wire

import "github.com/rdmaloop/rdmaloop/internal/psn"

// A REQ requests a connection. "Local" and "remote" are from the view of its sender. A
// timeout is a code c, which stands for 4.096 µs * 2^c. Source: IBTA vol. 1, 12.6.5.
type REQ struct {
	LocalID   uint32 // Communication id, chosen by the sender.
	ServiceID ServiceID
	CAGUID    uint64 // GUID of the sender's channel adapter.
	QKey      uint32
	QPN       uint32 // 24 bits

	ResponderResources uint8 // READs and atomics that the sender serves at a time.
	InitiatorDepth     uint8 // READs and atomics that the sender wants to have outstanding.

	RemoteTimeout uint8 // 5 bits: within which the receiver must answer.
	Transport     uint8 // 2 bits: 0 is RC.
	FlowControl   bool  // End-to-end flow control.
	// StartPSN is the PSN of the first request that the receiver sends.
	StartPSN     psn.Value
	LocalTimeout uint8 // 5 bits: within which the sender will answer.
	RetryCount   uint8 // 3 bits: transport retry count for the receiver's queue pair.
	PKey         uint16
	MTU          uint8 // 4 bits: code of the path MTU, 1 for 256 bytes to 5 for 4096.
	RNRRetry     uint8 // 3 bits: RNR retry count for the receiver's queue pair.
	MaxCMRetries uint8 // 4 bits: how often either side retransmits a CM message.
	SRQ          bool

	Primary Path

	// PrivateData begins with a CMAHeader if the service is an RDMA IP CM service. No
	// message says how much of its private data is in use.
	PrivateData [92]byte
}

// A Path is the network path that a connection request proposes. The alternate path is
// neither written nor read, because RoCE has no path migration.
type Path struct {
	LocalLID, RemoteLID uint16 // 0xffff on RoCE.
	LocalGID, RemoteGID GID
	FlowLabel           uint32 // 20 bits: flow label of the GRH.
	PacketRate          uint8  // 6 bits: packet rate.
	TrafficClass        uint8
	HopLimit            uint8
	SL                  uint8 // 4 bits: service level.
	SubnetLocal         bool
	AckTimeout          uint8 // 5 bits: code of the local ACK timeout.
}

// Encode writes the message, with the transaction id tid, to m.
func (r *REQ) Encode(m *MAD, tid uint64) { r.layout(m.encoding(AttrREQ, tid)) }

// Decode reads the message from m. It keeps no reference to m. It accepts any data: the
// caller checks the values.
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
