package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// PortSpace is the kind of service that an ID is for. A port in one port space is
// unrelated to the same port in the other, and to the ports of TCP and UDP sockets.
type PortSpace uint16

// Port spaces, numbered as enum rdma_port_space.
const (
	TCP PortSpace = 0x0106 // reliable connections (RC)
	UDP PortSpace = 0x0111 // lookup of datagram queue pairs (UD)
)

func (ps PortSpace) String() string {
	switch ps {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	}
	return unknown("port space", uint64(ps))
}

// QPType returns the type of the queue pairs of the port space.
func (ps PortSpace) QPType() verbs.QPType {
	if ps == UDP {
		return verbs.QPTypeUD
	}
	return verbs.QPTypeRC
}

// DefaultQKey is the Q_Key of UD queue pairs that are created on an ID (RDMA_UDP_QKEY).
const DefaultQKey = 0x01234567

// ConnParam has the parameters that this side asks for with Connect or Accept. In the
// fields ResponderResources, InitiatorDepth, RetryCount and RNRRetryCount, zero means
// the usual value, and a negative value means zero. A count that is too large is refused
// with a *verbs.ParamError. A nil *ConnParam means the zero ConnParam.
//
// The usual values are those that librdmacm uses for a null pointer: in Connect the
// largest values, in Accept the values of the request, lowered to the limits of the
// device. In C a structure of zeros has another meaning: no retries, no READs and no
// atomics. Source: rdma_connect(3), rdma_accept(3).
type ConnParam struct {
	// PrivateData is sent to the peer. The limit is 56 bytes with Connect and 196 with
	// Accept in the TCP port space, and 180 and 136 in the UDP port space. The data is
	// copied before the call returns. On the local path of the soft device the peer gets
	// exactly these bytes. Otherwise the peer gets them padded with zeros to the limit
	// (rdma_accept(3)), so the data should contain its length or end with a byte that is
	// not zero.
	PrivateData []byte

	// ResponderResources is the number of READs and atomics of the peer that this side
	// serves at a time, at most DeviceAttr.MaxQPRdAtom. In Connect zero means the
	// maximum of the device. In Accept zero means the value of the request, lowered to
	// that maximum. A negative value means that this side serves no READs and no
	// atomics. TCP only.
	ResponderResources int
	// InitiatorDepth is the number of READs and atomics that this side can have
	// outstanding, at most DeviceAttr.MaxQPInitRdAtom, and in Accept at most the
	// InitiatorDepth of the request. Zero means the largest allowed value. A negative
	// value means that this side sends no READs and no atomics. TCP only.
	InitiatorDepth int
	// FlowControl announces that this side supports end-to-end flow control. The device
	// then tells the peer how many receive buffers it has. When there are none, the peer
	// waits instead of sending a message and getting an RNR NAK (IBTA vol. 1, 9.7.7.2).
	// With FlowControl false, Accept announces nothing, even if the request announces
	// flow control. A program that wants to announce what the request announces, as
	// librdmacm does for a null pointer, passes the value of Event.Param.FlowControl. TCP
	// only.
	FlowControl bool
	// RetryCount is the number of retries after a missing acknowledgement, at most 7,
	// for both sides. Zero means 7, which is the value that librdmacm sends for a null
	// pointer. A negative value means no retries. Accept ignores RetryCount: the value
	// of Connect applies. TCP only.
	RetryCount int
	// RNRRetryCount is the number of times that the peer repeats a message for which this
	// side has no receive buffer posted. It is at most 7, and 7 means no limit. A
	// negative value means no retries. In Connect zero means 7; in Accept zero means the
	// value of the request. Both are the values that librdmacm sends for a null pointer.
	// TCP only.
	RNRRetryCount int

	// SRQ and QPNum describe a queue pair that was not created on the ID. SRQ is true if
	// that queue pair uses a shared receive queue. QPNum is its number, which has 24
	// bits. Both are ignored if the ID has a queue pair.
	SRQ   bool
	QPNum uint32
	// QKey is the Q_Key of a queue pair that was not created on the ID; zero means
	// DefaultQKey. UDP only.
	QKey uint32
}

// MessageParam has the parameters in a connection message. Its counts are plain numbers:
// unlike in ConnParam, zero means zero. In an event the parameters are from the
// receiver's point of view: the peer's initiator depth arrives as ResponderResources,
// and its responder resources as InitiatorDepth. Source: rdma_get_cm_event(3).
type MessageParam struct {
	// PrivateData is the private data of the message. See ConnParam.PrivateData for its
	// length.
	PrivateData []byte

	ResponderResources uint8 // number of READs and atomics that this side serves at a time
	InitiatorDepth     uint8 // number of READs and atomics that this side can have outstanding
	FlowControl        bool  // whether the sender of the message supports end-to-end flow control
	// RetryCount is the number of retries after a missing acknowledgement, for both
	// sides, 0 to 7. Only a connection request has it.
	RetryCount uint8
	// RNRRetryCount says how often the receiver of this connection message repeats a
	// SEND for which the sender of the message has no receive buffer posted, 0 to 7; 7
	// means no limit.
	RNRRetryCount uint8

	SRQ   bool   // whether the queue pair of the message's sender uses a shared receive queue
	QPNum uint32 // number of the queue pair of the message's sender
	// QKey is the Q_Key of the sender's queue pair in the answer to a datagram lookup. In
	// an event it is zero; Event.UD has the Q_Key of the peer.
	QKey uint32
}

// ConnParam returns the ConnParam with which Connect or Accept sends exactly the counts
// and the flow control of p. A count of zero becomes negative, because zero has another
// meaning in ConnParam. The fields PrivateData, SRQ, QPNum and QKey of the result are
// zero, because in an event they describe the peer and not this side.
//
// If a count of the result is above a limit of the device, Connect and Accept return a
// *verbs.ParamError. To accept a request with its own counts, lowered to the limits of
// the device, call Accept with nil.
func (p *MessageParam) ConnParam() *ConnParam {
	return &ConnParam{
		ResponderResources: exactCount(p.ResponderResources),
		InitiatorDepth:     exactCount(p.InitiatorDepth),
		FlowControl:        p.FlowControl,
		RetryCount:         exactCount(p.RetryCount),
		RNRRetryCount:      exactCount(p.RNRRetryCount),
	}
}

// exactCount converts a count of MessageParam to the count of ConnParam with which the
// same number is sent.
func exactCount(n uint8) int {
	if n == 0 {
		return -1
	}
	return int(n)
}

// Message is a kind of connection message that carries private data.
type Message uint8

// Connection messages with private data.
const (
	MessageConnect Message = iota // the message of ID.Connect
	MessageAccept                 // the message of ID.Accept
	MessageReject                 // the message of ID.Reject
)

func (m Message) String() string {
	names := [...]string{"connect", "accept", "reject"}
	if int(m) < len(names) {
		return names[m]
	}
	return unknown("message", uint64(m))
}

// MaxPrivateData returns the number of bytes of private data that a message can carry:
// 56, 196 and 148 for connect, accept and reject in the TCP port space, 180, 136 and 136
// in the UDP port space. It returns 0 if m is not one of the constants above. Source:
// rdma_connect(3), rdma_accept(3), rdma_reject(3). The field of the message of Connect
// is 36 bytes longer than the limit, because the field begins with the header of IBTA
// annex A11.
func MaxPrivateData(ps PortSpace, m Message) int {
	limits := [...]int{MessageConnect: 56, MessageAccept: 196, MessageReject: 148}
	if ps == UDP {
		limits = [...]int{MessageConnect: 180, MessageAccept: 136, MessageReject: 136}
	}
	if int(m) >= len(limits) {
		return 0
	}
	return limits[m]
}
