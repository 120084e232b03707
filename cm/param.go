package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// PortSpace is the kind of service that an ID is for. Each port space has its own port
// numbers, unrelated to those of sockets.
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

// ConnParam has the parameters of this side for Connect or Accept. For a count or depth,
// zero means the usual value, and a negative value means zero. A count that is too large
// is a *verbs.ParamError. A nil *ConnParam means the zero ConnParam.
//
// In Connect the usual values are the largest possible values. In Accept the usual
// values are those of the request, up to the device's limits. Source: rdma_connect(3),
// rdma_accept(3).
type ConnParam struct {
	// PrivateData is sent to the peer, and copied before the call returns. See
	// MaxPrivateData for the limits. PrivateData may arrive padded with zeros
	// (rdma_accept(3)), so it should contain its own length or end with a byte other
	// than zero.
	PrivateData []byte

	// ResponderResources is how many READs and atomics of the peer this side serves at a
	// time. The limit is DeviceAttr.MaxQPRdAtom. Zero means the limit, but in Accept not
	// more than the value of the request. A negative value means none. TCP only.
	ResponderResources int
	// InitiatorDepth is how many READs and atomics this side can have outstanding. The
	// limits are DeviceAttr.MaxQPInitRdAtom and, in Accept, the InitiatorDepth of the
	// request. Zero means the lower limit, and a negative value means none. TCP only.
	InitiatorDepth int
	// FlowControl announces end-to-end flow control. The peer then waits for a receive
	// buffer instead of getting an RNR NAK (IBTA vol. 1, 9.7.7.2). Accept does not copy
	// FlowControl from the request: see Event.Param. TCP only.
	FlowControl bool
	// RetryCount is the number of retries after a missing acknowledgement, at most 7,
	// for both sides. Zero means 7, and a negative value means none. Accept ignores
	// RetryCount. TCP only.
	RetryCount int
	// RNRRetryCount is how often the peer repeats a message for which this side has no
	// receive buffer. The maximum 7 means no limit. Zero means 7, but in Accept the
	// value of the request. A negative value means none. TCP only.
	RNRRetryCount int

	// SRQ and QPNum describe a queue pair that was not created on the ID: whether it has
	// a shared receive queue, and its 24-bit number. If the ID has a queue pair, both
	// are ignored.
	SRQ   bool
	QPNum uint32
	// QKey is the Q_Key of a queue pair that was not created on the ID; zero means
	// DefaultQKey. UDP only.
	QKey uint32
}

// MessageParam has the parameters in a connection message. In its counts, zero means
// zero. In an event the counts are from the receiver's point of view: the peer's
// InitiatorDepth arrives as ResponderResources, and the peer's ResponderResources as
// InitiatorDepth. Source: rdma_get_cm_event(3).
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
	// RNRRetryCount is how often the receiver of this connection message repeats a SEND
	// that finds no receive buffer, 0 to 7; 7 means no limit.
	RNRRetryCount uint8

	SRQ   bool   // whether the queue pair of the message's sender uses a shared receive queue
	QPNum uint32 // number of the queue pair of the message's sender
	// QKey is the sender's Q_Key in the answer to a datagram lookup. In an event it is
	// zero; see Event.UD.
	QKey uint32
}

// ConnParam converts p to parameters for Connect or Accept, which then send the counts
// and the flow control of p unchanged. The private data and the fields of the queue pair
// become zero. A count above the device's limit is refused. Accept(nil) lowers such a
// count instead.
func (p *MessageParam) ConnParam() *ConnParam {
	return &ConnParam{
		ResponderResources: exactCount(p.ResponderResources),
		InitiatorDepth:     exactCount(p.InitiatorDepth),
		FlowControl:        p.FlowControl,
		RetryCount:         exactCount(p.RetryCount),
		RNRRetryCount:      exactCount(p.RNRRetryCount),
	}
}

// exactCount converts a count of MessageParam to a count of ConnParam. Zero becomes -1,
// because zero in a ConnParam means the usual value.
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

// MaxPrivateData returns how many bytes of private data a message can carry. In the TCP
// port space the limits of connect, accept and reject are 56, 196 and 148. In the UDP
// port space the limits are 180, 136 and 136. Source: rdma_connect(3), rdma_accept(3),
// rdma_reject(3).
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
