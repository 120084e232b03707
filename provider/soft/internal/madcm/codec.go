//go:build linux

package madcm

import (
	"bytes"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Values of fields in the messages that this side sends. Times are codes of five bits;
// see codeTime.
const (
	// responseTimeout is the code of the time in which each side must answer a message:
	// 1.07 s. The REQ announces it.
	responseTimeout = 18
	// maxCMRetries is the number of retransmissions that a REQ announces. It is the largest
	// value of this field of 4 bits.
	maxCMRetries = 15
	// serviceTimeout is the code of the service timeout in an MRA. The peer waits for
	// this time, 69 s, before it retransmits its request.
	serviceTimeout = 24
)

// noLID is the value of the local identifiers in a REQ, because RoCE has none (IBTA annex
// A17.8.3).
const noLID = 0xffff

// minPathMTU is the smallest path MTU (IBTA vol. 1, 6.8). Every path supports it.
const minPathMTU = verbs.MTU256

// encodeREQ writes the REQ m to mad. The parameters guid and own are the node GUID and
// the communication ID of this side.
func encodeREQ(mad *wire.MAD, m *connmgr.REQ, guid uint64, own uint32) {
	r := wire.REQ{
		LocalID: own, ServiceID: wire.NewServiceID(uint16(cm.TCP), m.Dst.Port()), CAGUID: guid,
		QPN: m.QPN, StartPSN: psn.New(m.PSN), SRQ: m.SRQ, FlowControl: m.FlowControl,
		ResponderResources: m.ResponderResources, InitiatorDepth: m.InitiatorDepth,
		RetryCount: m.Retry, RNRRetry: m.RNRRetry,
		RemoteTimeout: responseTimeout, LocalTimeout: responseTimeout, MaxCMRetries: maxCMRetries,
		PKey: wire.DefaultPKey, MTU: uint8(m.MTU),
		Primary: wire.Path{
			LocalLID: noLID, RemoteLID: noLID,
			LocalGID: wire.NewGID(m.Src.Addr()), RemoteGID: wire.NewGID(m.Dst.Addr()),
			TrafficClass: m.TOS, HopLimit: udp.DefaultHopLimit, AckTimeout: m.AckTimeout,
		},
	}
	copy(encodeEndpointsMAD(r.PrivateData[:], &m.Endpoints), m.Private)
	r.Encode(mad, tid(own))
}

// Ends identifies the sender and the receiver of a message that Encode encodes.
type Ends struct {
	// communication IDs of the sender and the receiver, or request ID of a SIDR_REQ; 0 if
	// unknown
	Own, Peer uint32
	PeerQPN   uint32         // queue pair of the receiver; for a DREQ
	TID       uint64         // transaction ID of an RTU, a REJ or a DREP
	Service   wire.ServiceID // service ID of the request; for a SIDR_REP
	Rejected  wire.Answered  // message that a REJ refuses
}

// Encode writes a message to mad. The parameter device has the attributes of the sender.
func Encode(mad *wire.MAD, m connmgr.Message, e *Ends, device *verbs.DeviceAttr) {
	switch m := m.(type) {
	case *connmgr.REQ:
		encodeREQ(mad, m, device.NodeGUID, e.Own)
	case *connmgr.REP:
		encodeREP(mad, m, device, e.Own, e.Peer)
	case *connmgr.RTU:
		r := wire.RTU{LocalID: e.Own, RemoteID: e.Peer}
		r.Encode(mad, e.TID)
	case *connmgr.REJ:
		encodeREJ(mad, m, e, nil)
	case *connmgr.DREQ:
		r := wire.DREQ{LocalID: e.Own, RemoteID: e.Peer, RemoteQPN: e.PeerQPN}
		copy(r.PrivateData[:], m.Private)
		r.Encode(mad, tid(e.Own))
	case *connmgr.DREP:
		r := wire.DREP{LocalID: e.Own, RemoteID: e.Peer}
		r.Encode(mad, e.TID)
	case *connmgr.SIDRREQ:
		encodeSIDRREQ(mad, m, e.Own)
	case *connmgr.SIDRREP:
		encodeSIDRREP(mad, m, e.Service, e.Peer)
	}
}

// encodeREJ writes the REJ m to mad. The parameter info is its additional reject information.
func encodeREJ(mad *wire.MAD, m *connmgr.REJ, e *Ends, info []byte) {
	r := wire.REJ{LocalID: e.Own, RemoteID: e.Peer, Rejected: e.Rejected, Reason: uint16(m.Reason), InfoLength: uint8(len(info))}
	copy(r.Info[:], info)
	copy(r.PrivateData[:], m.Private)
	r.Encode(mad, e.TID)
}

// tid returns the transaction ID of a message and of all answers to it. The parameter own
// is the communication ID of the side that has sent the message.
func tid(own uint32) uint64 { return uint64(own) }

// encodeEndpointsMAD writes the addresses to the start of the private data of a request, as
// the RDMA IP CM Service requires (IBTA annex A11). It returns the rest of the private data,
// which is for the application.
func encodeEndpointsMAD(private []byte, e *connmgr.Endpoints) []byte {
	h := wire.CMAHeader{SrcPort: e.Src.Port(), Src: hostport.WithoutZone(e.Src.Addr()), Dst: hostport.WithoutZone(e.Dst.Addr())}
	return h.Encode(private)
}

// parseREQ decodes a REQ, or returns the reason to refuse it. The addresses in the REQ
// must be the addresses of the datagram: from and to.
func parseREQ(r *wire.REQ, from, to netip.Addr) (*connmgr.REQ, cm.RejectReason) {
	ps, port, ok := r.ServiceID.Port()
	m := &connmgr.REQ{
		QPParams: connmgr.QPParams{
			QPN: r.QPN, PSN: uint32(r.StartPSN), SRQ: r.SRQ,
			ResponderResources: r.ResponderResources, InitiatorDepth: r.InitiatorDepth,
			RNRRetry: r.RNRRetry, FlowControl: r.FlowControl,
		},
		Retry: r.RetryCount, MTU: verbs.MTU(r.MTU), AckTimeout: r.Primary.AckTimeout, TOS: r.Primary.TrafficClass,
	}
	switch {
	case !ok || cm.PortSpace(ps) != cm.TCP:
		return nil, cm.RejectInvalidServiceID
	case r.Transport != uint8(wire.RC):
		return nil, cm.RejectInvalidTransport
	case r.Primary.LocalGID.Addr() != from || r.Primary.RemoteGID.Addr() != to:
		return nil, cm.RejectInvalidGID
	case m.MTU < minPathMTU || m.MTU > verbs.MTU4096:
		return nil, cm.RejectInvalidMTU
	case r.QPN <= wire.GSIQPN || r.QPN == wire.MulticastQPN:
		return nil, cm.RejectNoQP
	}
	e, private, ok := parseEndpointsMAD(r.PrivateData[:], port, from, to)
	if !ok {
		// The addresses in the private data are wrong. The kernel also refuses such a
		// REQ with RejectConsumer.
		return nil, cm.RejectConsumer
	}
	m.Endpoints, m.Private = e, bytes.Clone(private)
	return m, 0
}

// parseEndpointsMAD reads the addresses from the private data of a request. It also returns
// the rest of the private data. It returns false if the addresses differ from those of the
// datagram.
func parseEndpointsMAD(private []byte, port uint16, from, to netip.Addr) (e connmgr.Endpoints, rest []byte, ok bool) {
	var h wire.CMAHeader
	rest, err := h.Decode(private)
	if err != nil || h.Src != from || h.Dst != to {
		return connmgr.Endpoints{}, nil, false
	}
	return connmgr.Endpoints{Src: netip.AddrPortFrom(from, h.SrcPort), Dst: netip.AddrPortFrom(to, port)}, rest, true
}

// encodeREP writes the REP m to mad. The parameters own and peer are the communication
// IDs of this side and of the peer.
func encodeREP(mad *wire.MAD, m *connmgr.REP, device *verbs.DeviceAttr, own, peer uint32) {
	r := wire.REP{
		LocalID: own, RemoteID: peer, CAGUID: device.NodeGUID,
		QPN: m.QPN, StartPSN: psn.New(m.PSN), SRQ: m.SRQ, FlowControl: m.FlowControl,
		ResponderResources: m.ResponderResources, InitiatorDepth: m.InitiatorDepth, RNRRetry: m.RNRRetry,
		TargetAckDelay: max(device.LocalCAAckDelay, connmgr.TargetAckDelay),
	}
	copy(r.PrivateData[:], m.Private)
	r.Encode(mad, tid(peer))
}

func parseREP(r *wire.REP) *connmgr.REP {
	return &connmgr.REP{
		QPParams: connmgr.QPParams{
			QPN: r.QPN, PSN: uint32(r.StartPSN), SRQ: r.SRQ,
			ResponderResources: r.ResponderResources, InitiatorDepth: r.InitiatorDepth,
			RNRRetry: r.RNRRetry, FlowControl: r.FlowControl,
		},
		Private: bytes.Clone(r.PrivateData[:]), AckDelay: r.TargetAckDelay,
	}
}

// parseREJ decodes a REJ. A REJ with the reason RejectConsumer comes from the peer's
// application if its private data is not all zero. Otherwise it comes from the peer's
// system.
func parseREJ(r *wire.REJ) *connmgr.REJ {
	reason := cm.RejectReason(r.Reason)
	hasPrivate := len(bytes.TrimRight(r.PrivateData[:], "\x00")) > 0
	return &connmgr.REJ{Reason: reason, ByApplication: reason == cm.RejectConsumer && hasPrivate, Private: bytes.Clone(r.PrivateData[:])}
}

// parseDREQ decodes a DREQ. Private data that is all zero, as that of the kernel, is none.
func parseDREQ(r *wire.DREQ) *connmgr.DREQ {
	if r.PrivateData == [len(r.PrivateData)]byte{} {
		return &connmgr.DREQ{}
	}
	return &connmgr.DREQ{Private: bytes.Clone(r.PrivateData[:])}
}

func encodeSIDRREQ(mad *wire.MAD, m *connmgr.SIDRREQ, own uint32) {
	r := wire.SIDRREQ{RequestID: own, PKey: wire.DefaultPKey, ServiceID: wire.NewServiceID(uint16(cm.UDP), m.Dst.Port())}
	copy(encodeEndpointsMAD(r.PrivateData[:], &m.Endpoints), m.Private)
	r.Encode(mad, tid(own))
}

// parseSIDRREQ decodes a SIDR_REQ, or returns the status of the refusal.
func parseSIDRREQ(r *wire.SIDRREQ, from, to netip.Addr) (*connmgr.SIDRREQ, cm.SIDRStatus) {
	ps, port, ok := r.ServiceID.Port()
	if !ok || cm.PortSpace(ps) != cm.UDP {
		return nil, cm.SIDRUnsupported
	}
	m := &connmgr.SIDRREQ{}
	e, private, ok := parseEndpointsMAD(r.PrivateData[:], port, from, to)
	if !ok {
		return nil, cm.SIDRReject
	}
	m.Endpoints, m.Private = e, bytes.Clone(private)
	return m, cm.SIDROK
}

func encodeSIDRREP(mad *wire.MAD, m *connmgr.SIDRREP, service wire.ServiceID, peer uint32) {
	r := wire.SIDRREP{RequestID: peer, Status: uint8(m.Status), QPN: m.QPN, QKey: m.QKey, ServiceID: service}
	copy(r.PrivateData[:], m.Private)
	r.Encode(mad, tid(peer))
}

func parseSIDRREP(r *wire.SIDRREP) *connmgr.SIDRREP {
	m := &connmgr.SIDRREP{Status: cm.SIDRStatus(r.Status), QPN: r.QPN, QKey: r.QKey, Private: bytes.Clone(r.PrivateData[:])}
	hasPrivate := len(bytes.TrimRight(m.Private, "\x00")) > 0
	m.ByApplication = m.Status == cm.SIDRReject && hasPrivate
	return m
}

// Packet builds the packet of a MAD in the buffer b, which has PacketSize bytes. The packet
// goes from queue pair 1 to queue pair 1 (IBTA vol. 1, 13.5.1).
func Packet(b []byte, m *wire.MAD, num psn.Value) wire.Packet {
	p := wire.Build(b, wire.UDSendOnly, wire.MADSize)
	p.BTH().SetDestQP(wire.GSIQPN)
	p.BTH().SetPSN(num)
	p.DETH().Set(wire.GSIQKey, wire.GSIQPN)
	copy(p.Payload(), m[:])
	return p
}

// setMTUInfo writes the largest path MTU of this side to a REJ, as one byte with the same
// code as in a REQ.
func setMTUInfo(r *wire.REJ, most verbs.MTU) { r.Info[0], r.InfoLength = uint8(most), 1 }

// isRequest reports whether a message is a REQ or a SIDR_REQ.
func isRequest(m *wire.MAD) bool {
	return m.Attribute() == wire.AttrREQ || m.Attribute() == wire.AttrSIDRREQ
}
